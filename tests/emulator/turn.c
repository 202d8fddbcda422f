/* See turn.h. A mutex would not do: whoever releases it to take it again mostly gets it before those who wait. */
#include "emulator/turn.h"

#include <pthread.h>
#include <sched.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned given, current; /* numbers of turns */

void turn_take(void) {
    pthread_mutex_lock(&mutex);
    unsigned own = given++;
    while (own != current)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void turn_end(void) {
    pthread_mutex_lock(&mutex);
    current++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void turn_pass(void) {
    turn_end();
    sched_yield(); /* another process may be awaited */
    turn_take();
}
