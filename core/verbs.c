/* The one table of verbs; see verbs.h. */
#include "verbs.h"

#include "cmd.h"
#include "verb_flags.h"
#include "verbs_image.h"

#include <string.h>

static const struct kern_option json_flag[] = {
    {.name = "json", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "print JSON"},
    {.name = NULL},
};

static const struct kern_option probe_flags[] = {
    {.name = "json", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "print JSON"},
    {.name = "toml",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG,
     .help = "print profiles to paste into kern.toml"},
    {.name = "scan-i2c",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG,
     .help = "ask each I2C address whether a device answers, which some devices take amiss"},
    {.name = NULL},
};

static const struct kern_option config_flags[] = {
    {.name = "json", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "list: print JSON"},
    {.name = "config", .type = KERN_PATH, .flags = KERN_OPT_FLAG, .arg = "FILE", .help = "another kern.toml"},
    {.name = "tagged",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG,
     .help = "parse: each value as {\"type\": TYPE, \"value\": TEXT}"},
    {.name = NULL},
};

static const struct kern_option plugin_flags[] = {
    {.name = "json", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "list, info: print JSON"},
    {.name = "config",
     .type = KERN_PATH,
     .flags = KERN_OPT_FLAG,
     .arg = "FILE",
     .help = "list, info: another kern.toml, which declares other plugins"},
    {.name = "profile",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG,
     .arg = "KIND",
     .help = "new: the plugin serves KIND:NAME"},
    {.name = NULL},
};

static const struct kern_option pull_flags[] = {
    {.name = "platform",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG,
     .arg = "OS/ARCH[/VARIANT]",
     .help = "the image for another machine (default: for this one)"},
    {.name = "quiet",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG,
     .letter = "q",
     .help = "no progress, no notes"},
    {.name = NULL},
};

static const struct kern_option login_flags[] = {
    {.name = "user",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG,
     .letter = "u",
     .arg = "USER",
     .help = "the name there (default: asked for)"},
    {.name = "password-stdin",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG,
     .help = "read the password from standard input instead of the terminal"},
    {.name = NULL},
};

#define ONE_BOX                                                                  \
    .min_words = 1, .max_words = 1, .question = "which box?", .takes = "a name", \
    .hint = "kern ps shows the boxes that run"
#define SOME_BOXES(words)                                                                  \
    .min_words = 1, .max_words = CORE_ANY_WORDS, .question = "which box?", .takes = words, \
    .hint = "kern ps shows the boxes that run"

static const struct core_verb verb_table[] = {
    {.name = "box",
     .summary = "start a box and run a command in it",
     .usage = "box [NAME] [KIND:PROFILE ...] [OPTIONS] [-- COMMAND ...]",
     .detail =
         "A box gets a root of its own: the directory of --rootfs, or a read-only view of the host's "
         "programs. "
         "Profiles of kern.toml are attached by name, as in \"kern box vcpu:heavy\". Without a command a "
         "shell is started. NAME is up to 64 letters, digits, \"_\", \".\" and \"-\"; left out, one is made "
         "up.\n\n"
         "A value stands in the next word or after \"=\": --memory 1g, --memory=1g, -m 1g, -m1g. A flag "
         "beats "
         "a profile, which beats [box] in kern.toml, which beats the default. Flags of other plugins are "
         "--PLUGIN-OPTION; \"kern plugin info PLUGIN\" shows them.",
     .raw = true,
     .run = core_cmd_box,
     .plugin_flags = KERN_OPT_FLAG},
    {.name = "run",
     .summary = "run a command of the host under limits, without a box",
     .usage = "run [vcpu:PROFILE] [OPTIONS] -- COMMAND ...",
     .detail = "The command sees the host as it is: same files, processes, network, environment, directory. "
               "Only the "
               "limits that are given, as options or by a vcpu profile, bind it and all that it starts. kern "
               "stays, "
               "passes signals on, ends what is left, also in the background, when the command has ended, "
               "and exits "
               "with its code. "
               "Descriptors "
               "above 2 are not passed on.",
     .raw = true,
     .run = core_cmd_run,
     .plugin_flags = KERN_OPT_RUN},
    {.name = "exec",
     .summary = "run another command in a living box",
     .usage = "exec NAME [OPTIONS] [-- COMMAND ...]",
     .detail = "The command gets what the box's own has: namespaces, limits, user, capabilities, filter, "
               "environment. When kern exec is ended, the command is, too. The exit code is the command's "
               "own; 126 and 127 when it cannot be executed or found, 125 when the box cannot be entered, "
               "1 when kern refused before. Without a command it is a shell.",
     .options = exec_flags,
     .min_words = 1,
     .max_words = CORE_ANY_WORDS,
     .question = "which box?",
     .takes = "a name and a command",
     .hint = "kern ps shows the boxes that run; kern exec NAME -- COMMAND",
     .run = core_cmd_exec},
    {.name = "cp",
     .summary = "copy files and directories into a box, or out of it",
     .usage = "cp BOX:PATH PATH\ncp PATH BOX:PATH",
     .detail = "As cp -r does: into a directory that is there under the name of the source, else under the "
               "new name; a "
               "directory PATH/. stands for what is in it. The box's side is read and written with the "
               "rights of its "
               "command: it must be running, and no link leads out of its root. Links in a tree are copied "
               "as links, "
               "devices, pipes and sockets are left out (the exit code is 1 then), and so is what only the "
               "kernel makes "
               "up. The copy belongs to who copies, or to the box's user; read, write and execute bits and "
               "times are kept.",
     .min_words = 2,
     .max_words = 2,
     .question = "which files?",
     .takes = "a source and a destination, one of them in a box",
     .hint = "kern cp BOX:PATH PATH, or kern cp PATH BOX:PATH",
     .run = core_cmd_cp},
    {.name = "diff",
     .summary = "list what a box has changed in its root",
     .usage = "diff NAME",
     .detail = "One path a line: A was added, C changed, D deleted. Volumes and other mounts are not looked "
               "into. What kern "
               "itself puts into a root (mount points, /etc/hosts of an image) is listed, too.",
     ONE_BOX,
     .run = core_cmd_diff},
    {.name = "ps",
     .summary = "list the boxes",
     .usage = "ps [-a] [--json|--format TEMPLATE|-q|--no-trunc] [--filter K=V ...]",
     .options = ps_flags,
     .run = core_cmd_ps},
    {.name = "logs",
     .summary = "print what a detached box printed",
     .usage = "logs NAME [-f] [--tail N] [--since TIME] [--timestamps]",
     .detail = "What the box wrote to standard error comes out on standard error.",
     .options = logs_flags,
     .min_words = 1,
     .max_words = 1,
     .question = "which box?",
     .takes = "a name",
     .hint = "kern ps -a shows the boxes",
     .run = core_cmd_logs},
    {.name = "attach",
     .summary = "look at the terminal of a detached box",
     .usage = "attach NAME [-i]",
     .detail =
         "For boxes started with -d -t. Ctrl-P Ctrl-Q leaves; the box goes on. When the box ends, its exit "
         "code is that of kern attach.",
     .options = attach_flags,
     ONE_BOX,
     .run = core_cmd_attach},
    {.name = "stop",
     .summary = "end boxes gently",
     .usage = "stop NAME ... | --all [--timeout SECONDS]",
     .detail = "Sends the box's --stop-signal and, after its --stop-timeout, SIGKILL. A first process that "
               "has no handler for the signal is ended at once.",
     .options = stop_flags,
     SOME_BOXES("a name, or --all"),
     .run = core_cmd_stop},
    {.name = "kill",
     .summary = "end boxes now, or send a signal",
     .usage = "kill NAME ... | --all [--signal SIGNAL]",
     .options = kill_flags,
     SOME_BOXES("a name, or --all"),
     .run = core_cmd_kill},
    {.name = "wait",
     .summary = "wait for the end of boxes and print their exit codes",
     .usage = "wait NAME ...",
     .detail = "A detached box that ended within a day has its code still.",
     SOME_BOXES("a name"),
     .run = core_cmd_wait},
    {.name = "inspect",
     .summary = "describe living boxes, or images",
     .usage = "inspect NAME ... [--json]\ninspect REF ...",
     .detail = "A name that is no living box's is looked for among the images.",
     .options = json_flag,
     SOME_BOXES("a name"),
     .run = core_cmd_inspect},
    {.name = "stats",
     .summary = "show what boxes use",
     .usage = "stats [NAME ...] [--json|--format TEMPLATE] [--no-stream]",
     .detail = "On a terminal, anew each second.",
     .options = stats_flags,
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_stats},
    {.name = "pause",
     .summary = "freeze boxes",
     .usage = "pause NAME ...",
     .detail = "Needs a control group of version 2.",
     SOME_BOXES("a name"),
     .run = core_cmd_pause},
    {.name = "unpause",
     .summary = "let frozen boxes go on",
     .usage = "unpause NAME ...",
     SOME_BOXES("a name"),
     .run = core_cmd_pause},
    {.name = "rm",
     .summary = "forget ended boxes and their logs",
     .usage = "rm NAME ... [--force]",
     .options = rm_flags,
     SOME_BOXES("a name"),
     .run = core_cmd_rm},
    {.name = "prune",
     .summary = "forget all ended boxes and their logs",
     .usage = "prune",
     .run = core_cmd_prune},
    {.name = "volume",
     .summary = "named volumes",
     .usage = "volume create NAME ... [--size SIZE]\nvolume ls [--json]\nvolume inspect NAME ...\nvolume rm "
              "NAME ...\n"
              "volume prune --force",
     .detail =
         "A named volume is a directory that -v NAME:/PATH puts into a box, made on first use. One that "
         "a living box uses is not removed. With a size, each box that has it is held to it: by a project "
         "quota "
         "where the file system has them, else by ending the box that fills it (fault workspace_full).",
     .options = volume_flags,
     .words = (const char *const[]){"create", "inspect", "ls", "prune", "rm", NULL},
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_volume},
    {.name = "doctor",
     .summary = "say what this machine can do for a box, and what mends the rest",
     .usage = "doctor [--json]",
     .detail =
         "Each line is the result of trying the feature itself: ok, warn where something less is to be had, "
         "fail where no box can start. The exit code is 1 when something failed; warnings do not count.",
     .options = json_flag,
     .run = core_cmd_doctor},
    {.name = "probe",
     .summary = "list what this machine could hand out to a box: GPIO lines, buses, devices, CPUs, disks",
     .usage = "probe [--json|--toml] [--scan-i2c]",
     .detail = "NAME is how a thing is written under the key KEY of a [[vgpio]] profile. STATE says who has "
               "it, or why it "
               "cannot be had.",
     .options = probe_flags,
     .run = core_cmd_probe},
    {.name = "load",
     .summary = "take images from an archive or an OCI layout",
     .usage = "load [-i FILE|DIR] [REF]",
     .detail = "Reads what \"docker save\", \"podman save\", \"skopeo copy\" and \"kern save\" write: a "
               "docker archive, or an "
               "OCI layout as a tar (perhaps compressed) or a directory. REF names an image that has no name "
               "of its own.",
     .options = load_flags,
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "import",
     .summary = "make an image of a directory or of the tar of a root file system",
     .usage = "import DIR|FILE|- REF [OPTIONS] [-- COMMAND ...]",
     .detail = "A tar may be plain, or compressed with gzip or zstd; - is standard input. COMMAND becomes "
               "the image's own.",
     .options = import_flags,
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "save",
     .summary = "write images into an archive that others load",
     .usage = "save REF ... [-o FILE]",
     .detail = "The archive is an OCI layout and a docker archive in one: \"docker load\", \"podman load\" "
               "and \"skopeo copy\" "
               "take it. Layers have the digests that they came with.",
     .options = save_flags,
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "tag",
     .summary = "give an image another name",
     .usage = "tag REF NEW-REF",
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "images",
     .summary = "list the images",
     .usage = "images [--json] [-q]",
     .options = images_flags,
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "rmi",
     .summary = "remove images, and what only they used",
     .usage = "rmi REF ...",
     .detail = "What a living box uses stays until it ends; \"kern gc\" then frees it.",
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "gc",
     .summary = "free what no image and no box uses",
     .usage = "gc [--dry-run]",
     .options = dry_flags,
     .detail = "What goes is listed first, with its size. Also images whose name means another one by now, "
               "and parts of transfers that were broken off.",
     .max_words = CORE_ANY_WORDS,
     .run = core_cmd_image},
    {.name = "recover",
     .summary = "remove what killed boxes left behind",
     .usage = "recover [--dry-run]",
     .detail =
         "Lists the boxes whose supervisor was killed, with their control groups, their scratch on "
         "disk and its size, files of devices that were given to them and quotas of their volumes, and "
         "removes them or gives them back. Each kern command that looks at boxes or starts one does "
         "that, too, without a word. Empty groups of kern's beside this process, whose kern is not alive "
         "and that no record leads to, are listed and removed as well, by this command alone.",
     .options = dry_flags,
     .run = core_cmd_recover},
    {.name = "plugin",
     .summary = "list the plugins, describe one; begin one, check one",
     .usage = "plugin list [--json] [--config FILE]\nplugin info NAME [--json] [--config FILE]\n"
              "plugin new NAME [--profile KIND]\nplugin check FILE.so\n"
              "plugin flags [box|run]",
     .detail =
         "\"new\" writes a project into the folder NAME: code, a build, tests. \"check\" opens a "
         "plugin that was "
         "built, runs its hooks on a box that is never started, and says what is wrong "
         "with it. \"flags\" prints the flags that plugins of others add to \"kern box\" or \"kern run\".",
     .options = plugin_flags,
     .words = (const char *const[]){"list", "info", "new", "check", "flags", NULL},
     .max_words = 2,
     .run = core_cmd_plugin},
    {.name = "validate",
     .summary = "check a kern.toml without running anything",
     .usage = "validate [FILE] [--json]",
     .options = json_flag,
     .detail = "Without FILE, the kern.toml that \"kern box\" would use.",
     .max_words = 1,
     .run = core_cmd_validate},
    {.name = "config",
     .summary = "list or change the profiles of kern.toml, or print a TOML document as JSON",
     .usage = "config list [--json] [--config FILE]\nconfig setup|edit [--config FILE]\n"
              "config add [--config FILE] KIND:NAME [--KEY VALUE ...]\nconfig rm [--config FILE] KIND:NAME\n"
              "config parse [--tagged] FILE|-",
     .detail = "What changes kern.toml keeps comments and order, and leaves the file alone when the result "
               "would not be "
               "valid. The first change writes the compiled-in profiles along. Without --config, KERN_CONFIG "
               "or one's own "
               "file is meant.\n\n\"parse\" takes any TOML 1.0 document and exits with 1 when it is not one.",
     .options = config_flags,
     .words = (const char *const[]){"list", "setup", "add", "rm", "edit", "parse", NULL},
     .raw = true,
     .run = core_cmd_config},
    {.name = "examples",
     .summary = "print a kern.toml with every key and a comment on each",
     .usage = "examples",
     .run = core_cmd_examples},
    {.name = "pull",
     .summary = "get an image from a registry",
     .usage = "pull REFERENCE [--platform OS/ARCH] [-q]",
     .detail =
         "REFERENCE is NAME[:TAG], HOST[:PORT]/NAME[:TAG] or NAME@sha256:DIGEST. Layers that are here "
         "already are "
         "not moved again, and what an interrupted pull has moved is kept: the next one goes on from there. "
         "Mirrors, registries without encryption and certificates are named in [registry] of kern.toml; "
         "proxies in https_proxy and no_proxy.",
     .options = pull_flags,
     .min_words = 1,
     .max_words = 1,
     .question = "which image?",
     .takes = "a reference",
     .hint = "kern pull NAME[:TAG]",
     .run = core_cmd_pull},
    {.name = "login",
     .summary = "log in to a registry",
     .usage = "login [REGISTRY] [-u USER] [--password-stdin]",
     .detail = "The credentials are tried, then kept where Docker keeps them: with the helper that its "
               "config.json names, "
               "else in that file ($DOCKER_CONFIG or ~/.docker), readable for you alone.",
     .options = login_flags,
     .max_words = 1,
     .run = core_cmd_login},
    {.name = "logout",
     .summary = "forget the credentials for a registry",
     .usage = "logout [REGISTRY]",
     .max_words = 1,
     .run = core_cmd_login},
    {.name = "completion",
     .summary = "print completions for a shell",
     .usage = "completion bash|zsh|fish",
     .detail = "For bash: source <(kern completion bash)",
     .words = (const char *const[]){"bash", "zsh", "fish", NULL},
     .min_words = 1,
     .max_words = 1,
     .question = "which shell?",
     .takes = "its name",
     .hint = "kern completion bash|zsh|fish",
     .run = core_cmd_completion},
    {.name = "version", .summary = "print the version", .usage = "version", .run = core_cmd_version},
    {.name = "help",
     .summary = "print the verbs, or the usage of one",
     .usage = "help [VERB]",
     .raw = true,
     .run = core_cmd_help},
    {.name = NULL},
};

const struct core_verb *core_verbs(void)
{
    return verb_table;
}

const struct core_verb *core_verb_find(const char *name)
{
    for (const struct core_verb *verb = verb_table; verb->name != NULL; verb++) {
        if (strcmp(verb->name, name) == 0)
            return verb;
    }
    return NULL;
}
