/*
 * A stand-in for NCCL: the calls that Ingot makes, among threads of one process, on host memory. A call waits for all ranks of
 * its communicator; only the
 * making of a communicator is in progress for a while. What is sent lies in a queue until it is received. `fake_nccl_fail`
 * makes a later call of a rank fail, as a lost connection does. A communicator takes GPU memory when it is made, and with its first
 * long call: of the stand-in for the driver, where a program has loaded it, and by `fake_nccl_taken`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collective.h"
#include "device/cuda/driver.h"
#include "dist/reduce.h"

enum { SUCCESS = 0, INVALID = 4, REMOTE = 6, IN_PROGRESS = 7, MOST_CALLS = 4096 };

struct id {
    char bytes[128];
};
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, REDUCE, BROADCAST, SEND, RECV };

struct request {
    enum kind kind;
    const void *from;
    void *to;
    size_t count;
    int type, op, peer;
};

/* Bytes on their way. */
struct mail {
    struct mail *next;
    int from, to;
    char bytes[];
};

/* What the ranks of a communicator share, by its id. */
struct world {
    uint64_t number;
    int ranks, arrived, users;
    unsigned turn;
    bool aborted, complete;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct request *requests[IG_MOST_RANKS];
    struct mail *mail; /* the newest last */
    struct world *next;
};

struct ncclComm {
    struct world *world;
    int rank;
    bool was_long;
};

enum { LONG = 1 << 16, TAKEN_AT_FIRST = 8 << 20, TAKEN_FOR_LONG = 2 << 20 }; /* bytes */
static atomic_size_t taken[IG_MOST_RANKS];

static struct world *worlds;
static pthread_mutex_t worlds_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int failing_rank = -1, refused_rank = -1;

/* The calls of this thread since GroupStart, all of one communicator. */
static _Thread_local struct request pending[MOST_CALLS];
static _Thread_local int n_pending, depth;
static _Thread_local struct ncclComm *pending_comm;

void fake_nccl_fail(int rank) {
    atomic_store(&failing_rank, rank);
}

/* The bytes that a rank's communicators have now. */
size_t fake_nccl_taken(int rank) {
    return atomic_load(&taken[rank]);
}

/* The driver's stand-in counts such memory as used for good. */
static void take(struct ncclComm *comm, size_t size) {
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, uint64_t);
    CUresult (*release)(CUmemGenericAllocationHandle);
    const CUmemAllocationProp properties = {.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle memory;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    atomic_fetch_add(&taken[comm->rank], size);
    if (!driver) return;
    *(void **)&create = dlsym(driver, "cuMemCreate");
    *(void **)&release = dlsym(driver, "cuMemRelease");
    if (create(&memory, size, &properties, 0) == CUDA_SUCCESS) release(memory);
    dlclose(driver);
}

/* The next communicator of that rank is not made. */
void fake_nccl_refuse(int rank) {
    atomic_store(&refused_rank, rank);
}

int ncclGetVersion(int *version) {
    *version = 22300;
    return SUCCESS;
}

const char *ncclGetErrorString(int result) {
    return result == REMOTE ? "remote process exited or there was a network error" : result ? "failure" : "no error";
}

const char *ncclGetLastError(struct ncclComm *comm) {
    return "";
}

int ncclGetUniqueId(struct id *id) {
    static atomic_ullong numbers;
    uint64_t number = atomic_fetch_add(&numbers, 1) + 1;
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &number, sizeof number);
    return SUCCESS;
}

static bool meet(struct world *w) {
    pthread_mutex_lock(&w->mutex);
    unsigned turn = w->turn;
    if (++w->arrived == w->ranks) {
        w->arrived = 0;
        w->turn++;
        pthread_cond_broadcast(&w->changed);
    }
    while (w->turn == turn && !w->aborted)
        pthread_cond_wait(&w->changed, &w->mutex);
    bool aborted = w->aborted;
    pthread_mutex_unlock(&w->mutex);
    return !aborted;
}

int ncclCommInitRankConfig(struct ncclComm **out, int ranks, struct id id, int rank, struct config *config) {
    uint64_t number;
    memcpy(&number, id.bytes, sizeof number);
    if (config->magic != 0xcafebeef || config->blocking != 0 || !number) return INVALID;
    if (atomic_compare_exchange_strong(&refused_rank, &(int){rank}, -1)) return INVALID;
    pthread_mutex_lock(&worlds_mutex);
    struct world *w = worlds;
    while (w && w->number != number)
        w = w->next;
    if (!w) {
        w = calloc(1, sizeof *w);
        w->number = number;
        w->ranks = ranks;
        pthread_mutex_init(&w->mutex, NULL);
        pthread_cond_init(&w->changed, NULL);
        w->next = worlds;
        worlds = w;
    }
    w->users++;
    pthread_mutex_unlock(&worlds_mutex);
    *out = malloc(sizeof **out);
    **out = (struct ncclComm){w, rank, false};
    take(*out, TAKEN_AT_FIRST);
    return IN_PROGRESS;
}

/* A communicator is ready when all ranks have come. */
int ncclCommGetAsyncError(struct ncclComm *comm, int *result) {
    struct world *w = comm->world;
    pthread_mutex_lock(&worlds_mutex);
    w->complete = w->complete || w->users == w->ranks;
    *result = w->aborted ? REMOTE : w->complete ? SUCCESS : IN_PROGRESS;
    pthread_mutex_unlock(&worlds_mutex);
    return SUCCESS;
}

int ncclCommFinalize(struct ncclComm *comm) {
    return SUCCESS;
}

int ncclCommDestroy(struct ncclComm *comm) {
    struct world *w = comm->world;
    pthread_mutex_lock(&worlds_mutex);
    if (--w->users == 0) {
        struct world **link = &worlds;
        while (*link != w)
            link = &(*link)->next;
        *link = w->next;
        free(w);
    }
    pthread_mutex_unlock(&worlds_mutex);
    atomic_fetch_sub(&taken[comm->rank], TAKEN_AT_FIRST + (comm->was_long ? TAKEN_FOR_LONG : 0));
    free(comm);
    return SUCCESS;
}

int ncclCommAbort(struct ncclComm *comm) {
    struct world *w = comm->world;
    pthread_mutex_lock(&w->mutex);
    w->aborted = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    return ncclCommDestroy(comm);
}

/* ---- Execution --------------------------------------------------------------------------------------------------- */

static const uint32_t dtypes[] = {INGOT_I8,  INGOT_U8,  INGOT_I32, INGOT_U32, INGOT_I64,
                                  INGOT_U64, INGOT_F16, INGOT_F32, INGOT_F64, INGOT_BF16};
static const uint32_t reductions[] = {IG_REDUCE_SUM, IG_REDUCTION_COUNT, IG_REDUCE_MAX, IG_REDUCE_MIN};

static void send(struct world *w, int from, const struct request *request, size_t bytes) {
    struct mail *mail = malloc(sizeof *mail + bytes), **end = &w->mail;
    *mail = (struct mail){NULL, from, request->peer};
    memcpy(mail->bytes, request->from, bytes);
    pthread_mutex_lock(&w->mutex);
    while (*end)
        end = &(*end)->next;
    *end = mail;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static bool receive(struct world *w, int to, const struct request *request, size_t bytes) {
    struct mail **at, *mail;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        at = &w->mail;
        while (*at && ((*at)->from != request->peer || (*at)->to != to))
            at = &(*at)->next;
        if (*at || w->aborted) break;
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    mail = *at;
    if (mail) *at = mail->next;
    pthread_mutex_unlock(&w->mutex);
    if (mail) memcpy(request->to, mail->bytes, bytes);
    free(mail);
    return mail;
}

/* Sends and receives, which only the ranks wait for that take part. */
static int run_pairs(struct ncclComm *comm, const struct request *requests, int count) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            size_t bytes = requests[i].count * ingot_dtype_size((enum ingot_dtype)dtypes[requests[i].type]);
            if (pass == 0 && requests[i].kind == SEND) send(comm->world, comm->rank, &requests[i], bytes);
            if (pass == 1 && requests[i].kind == RECV && !receive(comm->world, comm->rank, &requests[i], bytes))
                return REMOTE;
        }
    return SUCCESS;
}

/* Results lie beside until all have read: they may be in place of what others read. */
static void execute(const struct ncclComm *comm, int i, char *result) {
    const struct world *w = comm->world;
    const struct request *own = &w->requests[comm->rank][i];
    const size_t bytes = own->count * ingot_dtype_size((enum ingot_dtype)dtypes[own->type]);
    const void *from[IG_MOST_RANKS];
    for (int r = 0; r < w->ranks; r++)
        from[r] = (const char *)w->requests[r][i].from + (own->kind == REDUCE_SCATTER ? (size_t)comm->rank * bytes : 0);
    if (own->kind == ALL_REDUCE || own->kind == REDUCE_SCATTER || (own->kind == REDUCE && own->peer == comm->rank))
        ig_reduce(dtypes[own->type], reductions[own->op], from, (uint32_t)w->ranks, result, own->count);
    for (int r = 0; own->kind == ALL_GATHER && r < w->ranks; r++)
        memcpy(result + (size_t)r * bytes, from[r], bytes);
    if (own->kind == BROADCAST) memcpy(result, from[own->peer], bytes);
}

static size_t result_bytes(const struct ncclComm *comm, const struct request *r) {
    size_t bytes = r->count * ingot_dtype_size((enum ingot_dtype)dtypes[r->type]);
    if (r->kind == REDUCE && r->peer != comm->rank) return 0;
    return r->kind == ALL_GATHER ? bytes * (size_t)comm->world->ranks : bytes;
}

static int run(struct ncclComm *comm, struct request *requests, int count) {
    struct world *w = comm->world;
    int rank = comm->rank;
    if (atomic_compare_exchange_strong(&failing_rank, &rank, -1)) return REMOTE;
    if (!comm->was_long && requests[0].count * ingot_dtype_size((enum ingot_dtype)dtypes[requests[0].type]) >= LONG) {
        comm->was_long = true;
        take(comm, TAKEN_FOR_LONG);
    }
    if (requests[0].kind == SEND || requests[0].kind == RECV) return run_pairs(comm, requests, count);
    w->requests[comm->rank] = requests;
    if (!meet(w)) return REMOTE;
    char **results = calloc((size_t)count + 1, sizeof *results);
    for (int i = 0; i < count; i++) {
        results[i] = malloc(result_bytes(comm, &requests[i]) + 1);
        execute(comm, i, results[i]);
    }
    bool met = meet(w);
    for (int i = 0; i < count; i++) {
        size_t bytes = result_bytes(comm, &requests[i]);
        if (bytes) memcpy(requests[i].to, results[i], bytes);
        free(results[i]);
    }
    free(results);
    return met ? SUCCESS : REMOTE;
}

static int add(struct ncclComm *comm, struct request request) {
    if (!depth) return run(comm, &request, 1);
    if (n_pending == MOST_CALLS) return INVALID;
    pending_comm = comm;
    pending[n_pending++] = request;
    return SUCCESS;
}

int ncclGroupStart(void) {
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void) {
    if (--depth > 0 || n_pending == 0) return SUCCESS;
    int count = n_pending;
    n_pending = 0;
    return run(pending_comm, pending, count);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct ncclComm *comm, void *stream) {
    return add(comm, (struct request){ALL_REDUCE, from, to, count, type, op, 0});
}

int ncclAllGather(const void *from, void *to, size_t count, int type, struct ncclComm *comm, void *stream) {
    return add(comm, (struct request){ALL_GATHER, from, to, count, type, 0, 0});
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, struct ncclComm *comm, void *stream) {
    return add(comm, (struct request){REDUCE_SCATTER, from, to, count, type, op, 0});
}

int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, struct ncclComm *comm,
               void *stream) {
    return add(comm, (struct request){REDUCE, from, to, count, type, op, root});
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct ncclComm *comm, void *stream) {
    return add(comm, (struct request){BROADCAST, from, to, count, type, 0, root});
}

int ncclSend(const void *from, size_t count, int type, int peer, struct ncclComm *comm, void *stream) {
    return add(comm, (struct request){SEND, from, NULL, count, type, 0, peer});
}

int ncclRecv(void *to, size_t count, int type, int peer, struct ncclComm *comm, void *stream) {
    return add(comm, (struct request){RECV, NULL, to, count, type, 0, peer});
}
