/* Both ends of the network benchmark (bench/network): `wire serve ADDRESS PORT` answers, `wire ask HOST PORT WHAT N` measures and
 * prints one number: bulk (MB/s, N megabytes from the server), latency (microseconds a request, N of them), rate (connections a
 * second, N of them), hold (N connections, until standard input ends). Runs on the host and in a box. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (1 << 20)

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with a valid clock and pointer */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

/* A request is four bytes: 0 for one byte back, otherwise how many megabytes are wanted. */
static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    static const char block[BLOCK];
    uint32_t wanted;
    while (recv(fd, &wanted, sizeof(wanted), MSG_WAITALL) == (ssize_t)sizeof(wanted)) {
        if (wanted == 0 && send(fd, block, 1, MSG_NOSIGNAL) != 1)
            break;
        for (uint32_t i = 0; i < wanted; i++)
            for (size_t done = 0; done < BLOCK;) {
                ssize_t sent = send(fd, block + done, BLOCK - done, MSG_NOSIGNAL);
                if (sent <= 0)
                    break;
                done += (size_t)sent;
            }
    }
    (void)close(fd); /* the client has all that it wanted */
    return NULL;
}

static void serve(const char *address, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, address, &at.sin_addr) != 1 || fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1024) != 0)
        give_up("listen");
    (void)puts("up");
    (void)fflush(stdout); /* whoever waits for the line notices */
    pthread_attr_t small;
    (void)pthread_attr_init(&small);                                    /* cannot fail on Linux */
    (void)pthread_attr_setstacksize(&small, 65536);                     /* valid */
    (void)pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED); /* valid */
    for (;;) {
        pthread_t thread;
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0) {
            (void)setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* slower without */
            if (pthread_create(&thread, &small, serve_one, (void *)(intptr_t)peer) != 0)
                (void)close(peer); /* the client counts it as failed */
        }
    }
}

static int reach(const struct addrinfo *to)
{
    int on = 1, fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        give_up("connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* slower without */
    return fd;
}

static void ask_once(int fd)
{
    uint32_t nothing = 0;
    char byte;
    if (send(fd, &nothing, sizeof(nothing), MSG_NOSIGNAL) != (ssize_t)sizeof(nothing) ||
        recv(fd, &byte, 1, 0) != 1)
        give_up("ask");
}

static double bulk(int fd, uint32_t megabytes)
{
    static char block[BLOCK];
    double start = now();
    if (send(fd, &megabytes, sizeof(megabytes), MSG_NOSIGNAL) != (ssize_t)sizeof(megabytes))
        give_up("ask");
    for (uint64_t left = (uint64_t)megabytes << 20; left > 0;) {
        ssize_t got = recv(fd, block, sizeof(block), 0);
        if (got <= 0)
            give_up("receive");
        left -= (uint64_t)got;
    }
    return megabytes / (now() - start);
}

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *to = NULL;
    (void)signal(SIGPIPE, SIG_IGN); /* valid */
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        serve(argv[2], atoi(argv[3]));
    if (argc != 6 || getaddrinfo(argv[2], argv[3], &hints, &to) != 0)
        return 2;
    int count = atoi(argv[5]);
    double start = now();
    if (strcmp(argv[4], "bulk") == 0) {
        (void)printf("%.1f\n", bulk(reach(to), (uint32_t)count));
    } else if (strcmp(argv[4], "latency") == 0) {
        int fd = reach(to);
        ask_once(fd);
        start = now();
        for (int i = 0; i < count; i++)
            ask_once(fd);
        (void)printf("%.2f\n", (now() - start) / count * 1e6);
    } else if (strcmp(argv[4], "rate") == 0) {
        for (int i = 0; i < count; i++) {
            int fd = reach(to);
            ask_once(fd);
            (void)close(fd); /* it was answered */
        }
        (void)printf("%.1f\n", count / (now() - start));
    } else {
        for (int i = 0; i < count; i++)
            ask_once(reach(to));
        (void)printf("held\n");
        (void)fflush(stdout); /* whoever waits for the line notices */
        (void)getchar();      /* until the other side closes it */
    }
    freeaddrinfo(to);
    return 0;
}
