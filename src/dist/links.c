/* Connections between the processes of a group; see links.h. */
#define _GNU_SOURCE
#include "dist/links.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "\x89INGOTG"
#define MILLISECOND 1000000u
/* Between two attempts to reach rank 0. */
#define RETRY (5 * MILLISECOND)
/* For a connection to say who it is. */
#define INTRODUCTION (1000 * (uint64_t)MILLISECOND)

struct ig_links {
    const struct ingot_allocator *allocator;
    uint32_t rank, ranks;
    uint64_t limit;           /* nanoseconds */
    int peers[IG_MOST_RANKS]; /* sockets; -1: not connected with that rank */
    uint64_t lost;
};

/* What a rank says when it comes, and what it is told. */
struct hello {
    char magic[8];
    uint32_t rank, ranks;
    char version[32];
};
struct answer {
    uint32_t status;
    char text[508];
};

/* ---- Bytes within a deadline ------------------------------------------------------------------------------------- */

/* Milliseconds that are left, for poll. */
static int left(uint64_t deadline) {
    uint64_t now = ig_clock();
    return now >= deadline ? 0 : (int)((deadline - now) / MILLISECOND + 1);
}

static bool is_ready(int socket, short events, uint64_t deadline) {
    struct pollfd poll_one = {.fd = socket, .events = events};
    int found;
    do {
        found = poll(&poll_one, 1, left(deadline));
    } while (found < 0 && errno == EINTR);
    return found > 0;
}

static bool put(int socket, const void *data, size_t size, uint64_t deadline) {
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(socket, (const char *)data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            done += (size_t)sent;
        else if (errno != EINTR && (errno != EAGAIN || !is_ready(socket, POLLOUT, deadline)))
            return false;
    }
    return true;
}

static bool get(int socket, void *data, size_t size, uint64_t deadline) {
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(socket, (char *)data + done, size - done, MSG_DONTWAIT);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || (errno != EINTR && (errno != EAGAIN || !is_ready(socket, POLLIN, deadline))))
            return false;
    }
    return true;
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

struct address {
    struct sockaddr_storage storage;
    socklen_t size;
    bool is_path;
};

static enum ingot_status read_path(const char *text, struct address *out, struct ingot_error *error) {
    struct sockaddr_un *un = (struct sockaddr_un *)&out->storage;
    if (strlen(text) >= sizeof un->sun_path)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the ranks cannot meet at '%s': the path is longer than %zu bytes",
                      text, sizeof un->sun_path - 1);
    un->sun_family = AF_UNIX;
    strcpy(un->sun_path, text);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text) + 1);
    out->is_path = true;
    return INGOT_OK;
}

static enum ingot_status read_address(const char *text, struct address *out, struct ingot_error *error) {
    *out = (struct address){.size = 0};
    if (strchr(text, '/')) return read_path(text, out, error);
    char host[IG_ADDRESS_SIZE];
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1] || (size_t)(colon - text) >= sizeof host)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "the ranks cannot meet at '%s': expected HOST:PORT, or a path with a '/'", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(host, colon + 1, &hints, &found);
    if (failure) return IG_ERR(error, INGOT_IO, "the ranks cannot meet at '%s': %s", text, gai_strerror(failure));
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return INGOT_OK;
}

static int open_socket(const struct address *address) {
    const int yes = 1;
    int s = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || address->is_path) return s;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return s;
}

/* ---- Rank 0 ------------------------------------------------------------------------------------------------------ */

static enum ingot_status listen_at(const char *text, const struct address *address, int *out_socket,
                                   struct ingot_error *error) {
    int s = open_socket(address);
    if (address->is_path) unlink(text); /* of a rank 0 that was killed */
    if (s >= 0 && bind(s, (const struct sockaddr *)&address->storage, address->size) == 0 &&
        listen(s, IG_MOST_RANKS) == 0) {
        *out_socket = s;
        return INGOT_OK;
    }
    IG_ERR(error, INGOT_IO, "rank 0 cannot listen at '%s': %s", text, strerror(errno));
    if (s >= 0) close(s);
    return INGOT_IO;
}

/* Why the owner of that greeting cannot join; empty: it can. */
static void judge(struct ig_links *links, const struct hello *hello, char *out_text, size_t size) {
    out_text[0] = '\0';
    if (strncmp(hello->version, INGOT_VERSION, sizeof hello->version) != 0)
        snprintf(out_text, size, "rank %u has Ingot %.31s, rank 0 has %s", hello->rank, hello->version, INGOT_VERSION);
    else if (hello->ranks != links->ranks)
        snprintf(out_text, size, "rank %u was started as one of %u ranks, rank 0 as one of %u", hello->rank,
                 hello->ranks, links->ranks);
    else if (hello->rank == 0 || hello->rank >= links->ranks)
        snprintf(out_text, size, "a second process was started as rank %u of %u", hello->rank, hello->ranks);
    else if (links->peers[hello->rank] >= 0)
        snprintf(out_text, size, "two processes were started as rank %u of %u", hello->rank, hello->ranks);
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Takes in one that comes, if any does within the deadline. INGOT_OK also for one that is no rank. */
static enum ingot_status take_in(struct ig_links *links, int listener, uint64_t deadline, struct ingot_error *error) {
    struct hello hello;
    char text[400];
    int s = is_ready(listener, POLLIN, deadline) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (s < 0) return INGOT_OK;
    if (!get(s, &hello, sizeof hello, earlier(deadline, ig_clock() + INTRODUCTION)) ||
        memcmp(hello.magic, MAGIC, sizeof hello.magic) != 0) {
        close(s);
        return INGOT_OK;
    }
    hello.version[sizeof hello.version - 1] = '\0';
    judge(links, &hello, text, sizeof text);
    if (!text[0]) {
        links->peers[hello.rank] = s;
        return INGOT_OK;
    }
    struct answer answer = {.status = INGOT_INCOMPATIBLE};
    snprintf(answer.text, sizeof answer.text, "%s", text);
    put(s, &answer, sizeof answer, ig_clock() + INTRODUCTION);
    close(s);
    return IG_ERR(error, INGOT_INCOMPATIBLE, "%s", text);
}

static bool is_complete(const struct ig_links *links) {
    for (uint32_t r = 1; r < links->ranks; r++)
        if (links->peers[r] < 0) return false;
    return true;
}

static enum ingot_status say_missing(const struct ig_links *links, const char *address, struct ingot_error *error) {
    char missing[200] = "";
    for (uint32_t r = 1; r < links->ranks; r++) {
        size_t length = strlen(missing);
        if (links->peers[r] < 0) snprintf(missing + length, sizeof missing - length, "%s%u", length ? ", " : "", r);
    }
    return IG_ERR(error, INGOT_TIMEOUT, "of %u ranks, these did not come to '%s' within %.3g s: %s", links->ranks,
                  address, (double)links->limit / 1e9, missing);
}

static enum ingot_status host(struct ig_links *links, const char *text, const struct address *address,
                              struct ingot_error *error) {
    const uint64_t deadline = ig_clock() + links->limit;
    int listener;
    IG_TRY(listen_at(text, address, &listener, error));
    enum ingot_status status = INGOT_OK;
    while (status == INGOT_OK && !is_complete(links) && ig_clock() < deadline)
        status = take_in(links, listener, deadline, error);
    if (status == INGOT_OK && !is_complete(links)) status = say_missing(links, text, error);
    close(listener);
    if (address->is_path) unlink(text);
    struct answer answer = {.status = status};
    if (status != INGOT_OK && error) snprintf(answer.text, sizeof answer.text, "%.500s", error->message);
    for (uint32_t r = 1; r < links->ranks; r++)
        if (links->peers[r] >= 0) put(links->peers[r], &answer, sizeof answer, ig_clock() + INTRODUCTION);
    return status;
}

/* ---- The others -------------------------------------------------------------------------------------------------- */

/* Connects as soon as rank 0 listens. */
static int reach(const struct address *address, uint64_t deadline) {
    for (;;) {
        int s = open_socket(address);
        if (s >= 0 && connect(s, (const struct sockaddr *)&address->storage, address->size) == 0) return s;
        if (s >= 0) close(s);
        if (ig_clock() >= deadline) return -1;
        nanosleep(&(struct timespec){.tv_nsec = RETRY}, NULL);
    }
}

static enum ingot_status join(struct ig_links *links, const char *text, const struct address *address,
                              struct ingot_error *error) {
    const uint64_t deadline = ig_clock() + links->limit;
    struct hello hello = {.magic = MAGIC, .rank = links->rank, .ranks = links->ranks, .version = INGOT_VERSION};
    struct answer answer;
    int s;
    /* A listener may have ended, with who was in its queue: then this is another attempt. */
    while ((s = reach(address, deadline)) >= 0) {
        if (put(s, &hello, sizeof hello, deadline) && get(s, &answer, sizeof answer, deadline + INTRODUCTION)) break;
        close(s);
        if (ig_clock() >= deadline) s = -1;
        if (s < 0) break;
    }
    if (s < 0)
        return IG_ERR(
            error, INGOT_TIMEOUT,
            "rank %u of %u: rank 0 did not answer at '%s' within %.3g s: is it running, with the same address?",
            links->rank, links->ranks, text, (double)links->limit / 1e9);
    links->peers[0] = s;
    answer.text[sizeof answer.text - 1] = '\0';
    if (answer.status == INGOT_OK) return INGOT_OK;
    return IG_ERR(error, answer.status <= INGOT_CANCELLED ? (enum ingot_status)answer.status : INGOT_DEVICE, "%s",
                  answer.text);
}

/* ---- Meeting ----------------------------------------------------------------------------------------------------- */

enum ingot_status ig_links_meet(const char *text, uint32_t rank, uint32_t ranks, double seconds,
                                const struct ingot_allocator *allocator, struct ig_links **out_links,
                                struct ingot_error *error) {
    struct address address;
    struct ingot_error own;
    if (ranks < 1 || ranks > IG_MOST_RANKS || rank >= ranks)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "rank %u of %u: a group has 1 to %u ranks, from 0 on", rank, ranks,
                      IG_MOST_RANKS);
    IG_TRY(read_address(text, &address, error));
    struct ig_links *links = ig_allocate(allocator, sizeof *links, _Alignof(struct ig_links));
    if (!links) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a group's connections");
    *links = (struct ig_links){.allocator = allocator, .rank = rank, .ranks = ranks};
    links->limit = ig_clock_after(0, seconds > 0 ? seconds : IG_GROUP_SECONDS);
    for (uint32_t r = 0; r < IG_MOST_RANKS; r++)
        links->peers[r] = -1;
    enum ingot_status status = rank == 0 ? host(links, text, &address, &own) : join(links, text, &address, &own);
    if (status == INGOT_OK) {
        *out_links = links;
        return INGOT_OK;
    }
    ig_links_destroy(links);
    return IG_ERR(error, status, "%s", own.message);
}

void ig_links_destroy(struct ig_links *links) {
    if (!links) return;
    for (uint32_t r = 0; r < links->ranks; r++)
        if (links->peers[r] >= 0) close(links->peers[r]);
    ig_release(links->allocator, links, sizeof *links);
}

/* ---- What goes over the connections ------------------------------------------------------------------------------ */

static enum ingot_status say_lost(const struct ig_links *links, uint32_t rank, struct ingot_error *error) {
    return IG_ERR(error, INGOT_DEVICE, "rank %u lost its connection with rank %u, or waited longer than %.3g s",
                  links->rank, rank, (double)links->limit / 1e9);
}

enum ingot_status ig_links_gather(struct ig_links *links, const void *mine, size_t size, void *out_all,
                                  struct ingot_error *error) {
    const uint64_t deadline = ig_clock() + links->limit;
    char *all = out_all;
    memcpy(all + links->rank * size, mine, size);
    if (links->rank != 0) {
        bool done =
            put(links->peers[0], mine, size, deadline) && get(links->peers[0], all, links->ranks * size, deadline);
        return done ? INGOT_OK : say_lost(links, 0, error);
    }
    for (uint32_t r = 1; r < links->ranks; r++)
        if (!get(links->peers[r], all + r * size, size, deadline)) return say_lost(links, r, error);
    for (uint32_t r = 1; r < links->ranks; r++)
        if (!put(links->peers[r], all, links->ranks * size, deadline)) return say_lost(links, r, error);
    return INGOT_OK;
}

/* A byte with a descriptor (unix(7), SCM_RIGHTS). */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

static bool put_file(int socket, int file) {
    char byte = 0;
    union control control = {.space = {0}};
    struct iovec io = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    control.header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

static bool get_file(int socket, int *out_file, uint64_t deadline) {
    char byte;
    union control control = {.space = {0}};
    struct iovec io = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    if (!is_ready(socket, POLLIN, deadline) || recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof *out_file)) return false;
    memcpy(out_file, CMSG_DATA(header), sizeof *out_file);
    return true;
}

enum ingot_status ig_links_share_file(struct ig_links *links, int *file, struct ingot_error *error) {
    if (links->rank != 0)
        return get_file(links->peers[0], file, ig_clock() + links->limit) ? INGOT_OK : say_lost(links, 0, error);
    for (uint32_t r = 1; r < links->ranks; r++)
        if (!put_file(links->peers[r], *file)) return say_lost(links, r, error);
    return INGOT_OK;
}

/* By way of rank 0, which has connections with all. */
enum ingot_status ig_links_share_files(struct ig_links *links, int own, int *out_files, struct ingot_error *error) {
    const uint64_t deadline = ig_clock() + links->limit;
    if (links->rank != 0) {
        if (!put_file(links->peers[0], own)) return say_lost(links, 0, error);
        for (uint32_t r = 0; r < links->ranks; r++)
            if (r != links->rank && !get_file(links->peers[0], &out_files[r], deadline))
                return say_lost(links, 0, error);
        return INGOT_OK;
    }
    for (uint32_t r = 1; r < links->ranks; r++)
        if (!get_file(links->peers[r], &out_files[r], deadline)) return say_lost(links, r, error);
    for (uint32_t to = 1; to < links->ranks; to++)
        for (uint32_t r = 0; r < links->ranks; r++)
            if (r != to && !put_file(links->peers[to], r == 0 ? own : out_files[r])) return say_lost(links, to, error);
    return INGOT_OK;
}

/* Nothing more is sent, so what can be read is the end. */
uint64_t ig_links_lost(struct ig_links *links) {
    for (uint32_t r = 0; r < links->ranks; r++) {
        char byte;
        if (links->peers[r] < 0 || links->lost >> r & 1) continue;
        ssize_t got = recv(links->peers[r], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        bool open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
        if (!open) links->lost |= (uint64_t)1 << r;
    }
    return links->lost;
}
