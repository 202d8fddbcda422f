/* Locks by fcntl; see lock.h. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

static int set(int fd, const struct ig_cache_id *id, short type) {
    struct flock lock = {.l_type = type,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)((id->key.low ^ (uint64_t)id->kind) & (((uint64_t)1 << 62) - 1)),
                         .l_len = 1};
    int result;
    do {
        result = fcntl(fd, F_OFD_SETLK, &lock);
    } while (result != 0 && errno == EINTR);
    return result;
}

bool ig_lock_try(int fd, const struct ig_cache_id *id) {
    return set(fd, id, F_WRLCK) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* Not F_OFD_SETLKW, which waits for a builder that was stopped for as long as it is. */
bool ig_lock_wait(int fd, const struct ig_cache_id *id, unsigned seconds) {
    long pause = 1, waited = 0; /* ms */
    while (!ig_lock_try(fd, id)) {
        if (waited >= 1000L * seconds) return false;
        nanosleep(&(struct timespec){.tv_nsec = pause * 1000000}, NULL);
        waited += pause;
        if (pause < 20) pause++;
    }
    return true;
}

void ig_lock_release(int fd, const struct ig_cache_id *id) {
    set(fd, id, F_UNLCK);
}

void ig_lock_release_all(int fd) {
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET}; /* of length 0: to the end */
    fcntl(fd, F_OFD_SETLK, &all);
}
