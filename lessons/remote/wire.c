#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- bytes ---- */

static void send_all(lab_wire *w, const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t n = send(w->fd, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) lab_wire_lost(w, "its end of the wire is closed");
        at += n;
        bytes -= (size_t)n;
    }
}

void lab_wire_flush(lab_wire *w) {
    send_all(w, w->out, w->out_used);
    w->out_used = 0;
}

void lab_wire_write(lab_wire *w, const void *data, size_t bytes) {
    if (w->out_used + bytes > sizeof w->out) lab_wire_flush(w);
    if (bytes > sizeof w->out) {
        send_all(w, data, bytes);
        return;
    }
    if (bytes > 0) memcpy(w->out + w->out_used, data, bytes);
    w->out_used += bytes;
}

/* At least one byte more; 0: the other end is closed. */
static size_t receive(lab_wire *w, void *to, size_t room) {
    for (;;) {
        ssize_t n = recv(w->fd, to, room, 0);
        if (n >= 0 || errno != EINTR) return n > 0 ? (size_t)n : 0;
    }
}

static bool read_all(lab_wire *w, void *data, size_t bytes) {
    for (char *to = data; bytes > 0;) {
        size_t n = w->in_end - w->in_used;
        if (n > bytes) n = bytes;
        if (n > 0) {
            memcpy(to, w->in + w->in_used, n);
            w->in_used += n;
        } else if (bytes >= sizeof w->in) {
            if ((n = receive(w, to, bytes)) == 0) return false;
        } else {
            w->in_used = 0;
            if ((w->in_end = receive(w, w->in, sizeof w->in)) == 0) return false;
        }
        to += n;
        bytes -= n;
    }
    return true;
}

void lab_wire_read(lab_wire *w, void *data, size_t bytes) {
    if (!read_all(w, data, bytes)) lab_wire_lost(w, "it ended before its check had finished");
}

/* ---- arguments ---- */

bool lab_is_request(const lab_wire *w) {
    return w->way == LAB_ASKS || w->way == LAB_IS_ASKED;
}

void lab_value(lab_wire *w, void *value, size_t bytes) {
    if (w->way == LAB_ASKS) lab_wire_write(w, value, bytes);
    if (w->way == LAB_IS_ASKED) lab_wire_read(w, value, bytes);
}

void lab_result(lab_wire *w, void *value, size_t bytes) {
    if (w->way == LAB_ANSWERS) lab_wire_write(w, value, bytes);
    if (w->way == LAB_IS_ANSWERED) lab_wire_read(w, value, bytes);
}

void lab_wire_note(lab_wire *w, const char *format, ...) {
    if (w->way != LAB_ASKS) return;
    const size_t used = strlen(w->called);
    char note[80];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, sizeof note, format, arguments);
    va_end(arguments);
    if (used + strlen(note) + 3 < sizeof w->called)
        snprintf(w->called + used, sizeof w->called - used, "%s%s", used > 0 ? ", " : "", note);
}

void lab_note_value(lab_wire *w, const char *name, lab_kind kind, const void *value) {
    const char *arrow = strstr(name, "->");
    if (!arrow) return;
    for (const char *next; (next = strstr(arrow + 2, "->"));) arrow = next;
    name = arrow + 2;
    switch (kind) {
    case LAB_NO_NUMBER:
        break;
    case LAB_BOOL:
        lab_wire_note(w, "%s = %s", name,
                      *(const unsigned char *)value ? "true" : "false"); /* from a stranger: any byte */
        break;
    case LAB_INT:
        lab_wire_note(w, "%s = %d", name, *(const int *)value);
        break;
    case LAB_UNSIGNED:
        lab_wire_note(w, "%s = %u", name, *(const unsigned *)value);
        break;
    case LAB_LONG:
        lab_wire_note(w, "%s = %ld", name, *(const long *)value);
        break;
    case LAB_UNSIGNED_LONG:
        lab_wire_note(w, "%s = %lu", name, *(const unsigned long *)value);
        break;
    case LAB_FLOAT:
        lab_wire_note(w, "%s = %g", name, (double)*(const float *)value);
        break;
    case LAB_DOUBLE:
        lab_wire_note(w, "%s = %g", name, *(const double *)value);
        break;
    }
}

void lab_array(lab_wire *w, void **array, size_t bytes, bool comes_back) {
    unsigned char is = *array != NULL; /* in the caller's program; no bool: a stranger may send any byte */
    lab_value(w, &is, sizeof is);
    if (w->way == LAB_IS_ASKED) {
        *array = NULL;
        if (!is) return;
        if (bytes > LAB_MOST_ARRAY) lab_wire_lost(w, "it sent an array of a size that makes no sense");
        *array = lab_room_create(&w->rooms, bytes);
        if (!*array) lab_wire_lost(w, "out of memory");
        lab_wire_read(w, *array, bytes);
    } else if (*array && w->way == LAB_ASKS) {
        lab_wire_write(w, *array, bytes);
    } else if (*array && comes_back) {
        lab_result(w, *array, bytes);
    }
}

void lab_status(lab_wire *w, gs_status *status) {
    char message[1024] = "";
    uint32_t length = 0;
    if (w->way == LAB_ANSWERS && *status != GS_OK)
        length = (uint32_t)snprintf(message, sizeof message, "%s", gs_message());
    if (length >= sizeof message) length = sizeof message - 1;
    LAB_RESULT(w, *status);
    LAB_RESULT(w, length);
    if (length >= sizeof message) lab_wire_lost(w, "it sent a message of a length that makes no sense");
    lab_result(w, message, length);
    if (w->way == LAB_IS_ANSWERED && *status != GS_OK)
        *status =
            gs_fail(GS_E_PEER, "%s",
                    length > 0 ? message : "it returned a failure without a sentence (gs_fail takes one)");
}

/* ---- calls ---- */

static const lab_function *function_of(lab_wire *w, int index) {
    int count = 0;
    if (index >= LAB_COMMON) {
        while (lab_common[count].pass) count++;
        if (index - LAB_COMMON < count) return &lab_common[index - LAB_COMMON];
    }
    count = 0;
    while (lab_functions[count].pass) count++;
    if (index >= 0 && index < count) return &lab_functions[index];
    lab_wire_lost(w, "it asked for a function that there is not");
}

/* The call that `index` names, whose tag has been read. */
static void serve(lab_wire *w) {
    struct lab_room *before = w->rooms;
    const lab_way way = w->way;
    int index;
    lab_wire_read(w, &index, sizeof index);
    const lab_function *f = function_of(w, index);
    if (!f->call) lab_wire_lost(w, "it asked for a function that is its own");
    void *arguments = calloc(1, f->size);
    if (!arguments) lab_wire_lost(w, "out of memory");
    w->rooms = NULL;
    w->way = LAB_IS_ASKED;
    f->pass(w, arguments);
    f->call(arguments);
    const char tag = LAB_ANSWER;
    lab_wire_write(w, &tag, 1);
    w->way = LAB_ANSWERS;
    f->pass(w, arguments);
    lab_wire_flush(w);
    lab_rooms_free(&w->rooms);
    free(arguments);
    w->rooms = before;
    w->way = way;
}

static void read_blank(lab_wire *w) {
    char task[LAB_BLANK_TEXT];
    lab_wire_read(w, task, sizeof task);
    task[sizeof task - 1] = '\0';
    lab_wire_blank(task);
}

void lab_wire_ask(lab_wire *w, int index, void *arguments) {
    const lab_function *f = function_of(w, index);
    const lab_way way = w->way;
    struct gs_sync *const sync = w->sync;
    struct gs_comm *const comm = w->comm;
    char tag = LAB_CALL, outer[LAB_NOTE];
    memcpy(outer, w->called, sizeof outer);
    *w->called = '\0';
    if (w->nested++ == LAB_MOST_NESTED) lab_wire_lost(w, "its calls are nested too deep");
    w->sync = NULL; /* until this call passes one: that of another call may be gone */
    w->comm = NULL;
    lab_wire_write(w, &tag, 1);
    lab_wire_write(w, &index, sizeof index);
    w->way = LAB_ASKS;
    f->pass(w, arguments);
    lab_wire_flush(w);
    for (;;) {
        lab_wire_read(w, &tag, 1);
        if (tag == LAB_ANSWER) break;
        if (tag == LAB_CALL)
            serve(w);
        else if (tag == LAB_BLANK)
            read_blank(w);
        else
            lab_wire_lost(w, "it sent what makes no sense");
    }
    w->way = LAB_IS_ANSWERED;
    f->pass(w, arguments);
    w->way = way;
    w->sync = sync;
    w->comm = comm;
    memcpy(w->called, outer, sizeof outer);
    w->nested--;
}

bool lab_wire_serve(lab_wire *w) {
    char tag;
    if (!read_all(w, &tag, 1)) return false;
    if (tag != LAB_CALL) lab_wire_lost(w, "the checker sent what makes no sense");
    serve(w);
    return true;
}

void lab_remote(int index, void *arguments) {
    lab_wire_ask(lab_wire_here(), index, arguments);
}
