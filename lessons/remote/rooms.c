#include "wire.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct lab_room {
    struct lab_room *next;
    void *memory;
    size_t mapped; /* bytes; 0: an ordinary block */
} lab_room;

enum { WITH_SANITIZER, END_GUARDED, BEGIN_GUARDED, PLACES };

#ifdef LAB_HAND_IN
/* <sanitizer/asan_interface.h>, which clang-tidy does not find */
void __asan_poison_memory_region(const volatile void *, size_t);
void __asan_unpoison_memory_region(const volatile void *, size_t);

/* An access beside the array is named as one, also where memory follows up to the end of its page. */
static void poison_beside(const lab_room *r, const char *array, size_t bytes) {
    const char *begin = r->memory, *end = begin + r->mapped;
    __asan_poison_memory_region(begin, (size_t)(array - begin));
    __asan_poison_memory_region(array + bytes, (size_t)(end - array) - bytes);
}

static void unpoison(const lab_room *r) {
    __asan_unpoison_memory_region(r->memory, r->mapped);
}
#else
static void poison_beside(const lab_room *r, const char *array, size_t bytes) {
    (void)r, (void)array, (void)bytes;
}

static void unpoison(const lab_room *r) {
    (void)r;
}
#endif

static void *guarded(lab_room *r, size_t bytes, bool at_end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    if (inside == 0) inside = page;
    r->mapped = inside + 2 * page;
    char *m = mmap(NULL, r->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return NULL;
    r->memory = m;
    if (mprotect(m + page, inside, PROT_READ | PROT_WRITE) != 0) return NULL;
    char *array = m + page + (at_end ? inside - bytes : 0);
    poison_beside(r, array, bytes);
    return array;
}

void *lab_room_create(lab_room **list, size_t bytes) {
    /* The first array of the first call has the sanitizer's guard, which says most. */
    static _Thread_local unsigned calls, next;
    if (!*list) next = calls++;
    const unsigned place = next++ % PLACES;
    lab_room *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->next = *list;
    *list = r;
    if (place != WITH_SANITIZER) return guarded(r, bytes, place == END_GUARDED);
    return r->memory = malloc(bytes > 0 ? bytes : 1);
}

void lab_rooms_free(lab_room **list) {
    for (lab_room *r = *list, *next; r; r = next) {
        next = r->next;
        if (r->mapped == 0) {
            free(r->memory);
        } else if (r->memory) {
            unpoison(r);
            munmap(r->memory, r->mapped);
        }
        free(r);
    }
    *list = NULL;
}
