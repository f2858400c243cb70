/* Signals: their names, and which kern catches; see signals.h. */
#include "signals.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    int number;
} names[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},   {"ABRT", SIGABRT}, {"KILL", SIGKILL},
    {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},   {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"STOP", SIGSTOP},   {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},
    {"TTOU", SIGTTOU}, {"URG", SIGURG},   {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", SIGPWR},
};

/* "RTMIN", "RTMIN+N", "RTMAX", "RTMAX-N", as images of systemd name theirs. */
static int real_time(const char *text)
{
    bool from_first = strncasecmp(text, "RTMIN", 5) == 0;
    if (!from_first && strncasecmp(text, "RTMAX", 5) != 0)
        return 0;
    if (text[5] == '\0')
        return from_first ? SIGRTMIN : SIGRTMAX;
    size_t digits = strspn(text + 6, "0123456789");
    if (text[5] != (from_first ? '+' : '-') || digits == 0 || digits > 2 || text[6 + digits] != '\0')
        return 0;
    int number = from_first ? SIGRTMIN + atoi(text + 6) : SIGRTMAX - atoi(text + 6);
    return number >= SIGRTMIN && number <= SIGRTMAX ? number : 0;
}

int core_signal_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && digits < 3 && text[digits] == '\0') {
        int number = atoi(text);
        return number >= 1 && number <= 64 ? number : 0;
    }
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(text, names[i].name) == 0)
            return names[i].number;
    return real_time(text);
}

/* By whoever started kern (nohup): that stays so. */
static bool is_ignored(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void core_signals_to_catch(const int *signals, size_t count, sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    for (size_t i = 0; i < count; i++)
        if (!is_ignored(signals[i]))
            (void)sigaddset(ret_set, signals[i]); /* valid signals */
}
