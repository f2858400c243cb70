/* The host's resolver files; see egress_host.h. In kern, in prepare. */
#include "egress_host.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <net/if.h>
#include <string.h>

#define FILE_MOST 65536

/* Each word of one line. Returns NULL at its end. */
static const char *next_word(const char **at, size_t *ret_length)
{
    const char *word = *at + strspn(*at, " \t\r");
    size_t length = strcspn(word, " \t\r\n#;");
    *at = word + length;
    *ret_length = length;
    return length > 0 ? word : NULL;
}

static void add_server(const char *word, size_t length, struct egress_host_files *files)
{
    char name[IF_NAMESIZE] = "";
    const char *zone = memchr(word, '%', length);
    size_t address = zone != NULL ? (size_t)(zone - word) : length;
    uint32_t at = files->server_count;
    if (at == EGRESS_SERVERS || egress_address_parse(word, address, &files->server[at]) != 0)
        return;
    if (zone != NULL && length - address - 1 < sizeof(name))
        memcpy(name, zone + 1, length - address - 1);
    files->scope[at] = name[0] != '\0' ? if_nametoindex(name) : 0;
    files->server_count++;
}

void egress_host_read_resolv(const char *text, struct egress_host_files *files)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;
        size_t length = 0;
        const char *word = next_word(&at, &length);
        if (word == NULL || length != 10 || memcmp(word, "nameserver", 10) != 0)
            continue;
        word = next_word(&at, &length);
        if (word != NULL)
            add_server(word, length, files);
    }
}

static int add_host(const struct egress_address *address, const char *word, size_t length,
                    struct egress_host_files *files)
{
    char name[EGRESS_NAME_SIZE];
    if (egress_name_clean(word, length, name) != 0 || files->host_count == EGRESS_HOSTS)
        return 0;
    if (files->host == NULL)
        files->host = calloc(EGRESS_HOSTS, sizeof(*files->host));
    if (files->host == NULL)
        return -ENOMEM;
    struct egress_host_entry *entry = &files->host[files->host_count++];
    entry->address = *address;
    memcpy(entry->name, name, sizeof(name));
    return 0;
}

int egress_host_read_hosts(const char *text, struct egress_host_files *files)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;
        size_t length = 0;
        struct egress_address address;
        const char *word = next_word(&at, &length);
        if (word == NULL || egress_address_parse(word, length, &address) != 0)
            continue;
        while ((word = next_word(&at, &length)) != NULL)
            if (add_host(&address, word, length, files) != 0)
                return -ENOMEM;
    }
    return 0;
}

static void read_text(const char *path, char ret_text[FILE_MOST])
{
    ret_text[0] = '\0';
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, ret_text, FILE_MOST - 1);
    if (got > 0)
        ret_text[got] = '\0';
}

int egress_host_read(struct egress_host_files *files)
{
    auto_free char *text = malloc(FILE_MOST);
    if (text == NULL)
        return -ENOMEM;
    read_text("/etc/resolv.conf", text);
    egress_host_read_resolv(text, files);
    if (files->server_count == 0) {
        files->server[0] = (struct egress_address){.bytes = {127, 0, 0, 1}};
        files->server_count = 1;
    }
    read_text("/etc/hosts", text);
    return egress_host_read_hosts(text, files);
}
