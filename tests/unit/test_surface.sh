#!/bin/bash
# What stands around the verbs: dispatch, help, man pages, completions. No privileges.
# Usage: test_surface.sh KERN SOURCE_DIR
set -u
kern=$(realpath "$1")
source_dir=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

expect() # WHAT EXPECTED ACTUAL
{
    [[ $2 == "$3" ]] && return
    printf 'FAIL: %s\n  expected: %q\n  actual:   %q\n' "$1" "$2" "$3"
    failures=$((failures + 1))
}

# CODE STDERR WORDS...: nothing on stdout.
refused()
{
    local code=$1 stderr=$2 out actual
    shift 2
    out=$("$kern" "$@" 2>"$work/err")
    actual=$?
    expect "exit code of kern $*" "$code" "$actual"
    expect "stderr of kern $*" "$stderr" "$(cat "$work/err")"
    expect "stdout of kern $*" "" "$out"
}

told() # PATTERN WORDS...: exit code 0, stdout matches, stderr is empty
{
    local pattern=$1 out
    shift
    out=$("$kern" "$@" 2>"$work/err")
    expect "exit code of kern $*" 0 $?
    expect "stderr of kern $*" "" "$(cat "$work/err")"
    # shellcheck disable=SC2053 # a pattern is meant
    [[ $out == $pattern ]] || expect "stdout of kern $*" "$pattern" "$out"
}

told 'kern [0-9]*' --version
told 'kern [0-9]*' version
told 'usage: kern VERB*' --help
told 'usage: kern VERB*' help
told 'usage: kern box *--memory SIZE*' box --help
told 'usage: kern box *--memory SIZE*' help box
told 'usage: kern config list*' config --help
out=$("$kern" 2>"$work/err")
expect "exit code of kern alone" 1 $?
expect "stderr of kern alone" "" "$(cat "$work/err")"
[[ $out == 'usage: kern VERB'* ]] || expect "kern alone" "the usage" "$out"

refused 1 $'kern: "mcp" is not available in this build\nhint: the server for models is kern-mcp, of the Python package kern-sandbox' mcp
refused 1 $'kern: which box? kern exec takes a name and a command\nhint: kern ps shows the boxes that run; kern exec NAME -- COMMAND' exec
refused 1 $'kern: "mcp" is not available in this build\nhint: the server for models is kern-mcp, of the Python package kern-sandbox' mcp serve
refused 1 $'kern: unknown verb "bxo"\nhint: did you mean "kern box"? All verbs: kern --help' bxo
refused 1 $'kern: unknown verb "quux"\nhint: all verbs: kern --help' quux
refused 1 $'kern: unknown verb "vcpu:heavy"\nhint: kern box vcpu:heavy' vcpu:heavy
refused 1 $'kern: unknown option "--memory"\nhint: all verbs and options: kern --help' --memory
refused 1 $'kern: no help for "mcp": no such verb in this build\nhint: all verbs: kern help' help mcp
refused 1 $'kern: no completions for the shell "csh"\nhint: kern completion bash|zsh|fish' completion csh
refused 1 $'kern: which shell? kern completion takes its name\nhint: kern completion bash|zsh|fish' completion
refused 1 $'kern: unexpected word "x"\nhint: kern version --help' version x
refused 1 "kern: cannot read \"$work/none\": No such file or directory" help --roff "$work/none"
"$kern" help >/dev/full 2>"$work/err"
expect "exit code when stdout is full" 1 $?
expect "when stdout is full" "kern: cannot write to standard output: No space left on device" "$(cat "$work/err")"

# ---- Man pages ----------------------------------------------------------------------------------------
for page in kern.1 kern-box.1 kern.toml.5; do
    "$kern" help --roff "$source_dir/docs/man/$page.in" >"$work/$page"
    expect "making $page" 0 $?
    grep -q '^@' "$work/$page" && expect "directives left in $page" none "$(grep '^@' "$work/$page")"
    if command -v man >/dev/null; then
        expect "warnings on $page" "" "$(man --warnings -l "$work/$page" 2>&1 >/dev/null)"
    else
        echo "skip: warnings on $page: there is no man"
    fi
done
grep -q 'memory cap' "$work/kern-box.1" || expect "kern-box.1" "--memory" "nothing of it"

# ---- Completions: a kern whose profiles are known, one of them hostile ----------------------------------
mkdir "$work/bin"
cat >"$work/bin/kern" <<END
#!/bin/sh
[ "\$1 \$2" = "config list" ] || exec "$kern" "\$@"
echo "vcpu:heavy  4 cpus"
echo "vcpu:light"
echo 'vcpu:\$(touch\${IFS}$work/owned)'
echo "greeting:hello"
END
chmod +x "$work/bin/kern"
export PATH=$work/bin:$PATH

# LINE: what bash would offer at its end, sorted
offered()
{
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _kern
    printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}

for shell in bash zsh fish; do
    "$kern" completion $shell >"$work/completion.$shell"
    expect "kern completion $shell" 0 $?
done
bash -n "$work/completion.bash" || expect "syntax of the bash completion" good bad
# shellcheck source=/dev/null
source "$work/completion.bash"
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
expect "bash: verbs" "box " "$(offered 'kern b')"
expect "bash: no verb" " " "$(offered 'kern zz')"
expect "bash: flags" "--memory --memory-swap-max " "$(offered 'kern box web --mem')"
expect "bash: one flag" "--scratch " "$(offered 'kern box --scr')"
expect "bash: choices" "host none " "$(offered 'kern box --net ')"
expect "bash: choices after =" "host " "$(offered 'kern box --net=h')"
expect "bash: profiles" "greeting:hello vcpu:heavy vcpu:light " \
    "$(offered 'kern box ' | tr ' ' '\n' | grep : | tr '\n' ' ')"
expect "bash: profiles after a colon" "heavy light " "$(offered 'kern box --init vcpu:')"
expect "bash: one profile" "heavy " "$(offered 'kern box vcpu:h')"
expect "bash: other values" " " "$(offered 'kern box --memory ')"
expect "bash: words of a verb" "check flags info list new " "$(offered 'kern plugin ' | tr ' ' '\n' | grep -v -- - | tr '\n' ' ')"
expect "bash: flags of a verb" "--json " "$(offered 'kern doctor --j')"
expect "bash: shells" "fish " "$(offered 'kern completion f')"
touch "$work/rootfs.one"
expect "bash: files" "$work/rootfs.one " "$(offered "kern box --rootfs $work/root")"
expect "bash: files of the command" "$work/rootfs.one " "$(offered "kern box -- ls $work/root")"
COMP_WORDBREAKS=$' \t\n'
expect "bash: whole words" "vcpu:heavy " "$(offered 'kern box vcpu:h')"
expect "bash: whole words with =" "--net=host " "$(offered 'kern box --net=h')"
[[ -e $work/owned ]] && expect "a hostile profile name" "not run" "run"

if command -v zsh >/dev/null; then
    zsh -n "$work/completion.zsh" || expect "syntax of the zsh completion" good bad
    # shellcheck disable=SC2016 # for zsh to expand
    expect "zsh: functions" "ok" "$(zsh -fc 'autoload -U compinit; compinit -u -D; source "$1"
        [[ $_comps[kern] == _kern ]] && (( $+functions[_kern_verb_box] )) && echo ok' - "$work/completion.zsh" 2>&1)"
else
    echo "skip: zsh completion: there is no zsh"
fi
if command -v fish >/dev/null; then
    fish --no-execute "$work/completion.fish" || expect "syntax of the fish completion" good bad
    export HOME=$work XDG_CONFIG_HOME=$work/config XDG_DATA_HOME=$work/data
    fish_offers()
    {
        # shellcheck disable=SC2016 # for fish to expand
        fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$work/completion.fish" "$1" 2>&1 | cut -f1 | tr '\n' ' '
    }
    expect "fish: flags" "--memory --memory-swap-max " "$(fish_offers 'kern box --mem')"
    expect "fish: choices" "host none " "$(fish_offers 'kern box --net ')"
    expect "fish: profiles" "vcpu:heavy vcpu:light " "$(fish_offers 'kern box vcpu:')"
    expect "fish: verbs" "box " "$(fish_offers 'kern bo')"
else
    echo "skip: fish completion: there is no fish"
fi

((failures == 0)) || exit 1
echo "all good"
