/* What a student's process sends to the grader: a verdict over a socket, and its output with sanitizer reports. */
#include "contain.c"
#include "grader.h"
#include "fuzz.h"

const lab_task lab_tasks[] = {{"7.1", "the task", 3, NULL, "the hint"}, {0}};

FUZZ(in) {
    int ends[2];
    lab_job job = {.judged = true, .limits = {1, 1 << 20, 1 << 20}};
    running r = {.job = &job, .output = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fuzz_wrong("cannot create sockets");
    uint8_t how = fuzz_byte(in), length = fuzz_byte(in);
    if (how & 1) {
        lab_verdict v;
        memset(&v, 'x', sizeof v);
        memset(v.word, 0, sizeof v.word); /* the word that r expects */
        fuzz_bytes(in, v.blank, sizeof v.blank);
        v.passed = how & 2;
        v.leaks = how & 4;
        v.ended = how & 16;
        v.signal = (int8_t)fuzz_byte(in);
        v.code = (int8_t)fuzz_byte(in);
        fuzz_bytes(in, v.message, length * 2);
        if (send(ends[1], &v, sizeof v - (how & 8 ? 1 : 0), 0) < 0) fuzz_wrong("no verdict can be sent");
    }
    r.verdict = ends[0];
    read_verdict(&r);
    shut(&r.verdict);
    close(ends[1]);

    job.output = fuzz_text(in);
    job.end = (lab_end)(how >> 5 > LAB_TOO_TALKATIVE ? LAB_SIGNAL : how >> 5);
    job.code = job.end == LAB_SIGNAL ? SIGSEGV : 1;
    lab_grading g = {.lab = "07", .title = "a lab", .source = "lab.c", .folder = "build", .seconds = 10};
    lab_grade grade = {.count = 1};
    lab_judge(&g, &lab_tasks[0], &job, "lab.c", &grade.outcome[0]);
    lab_print(&g, &grade);
    lab_print_json(&g, &grade);
    lab_job_free(&job);
}
