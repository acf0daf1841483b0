/* What a lab's grader has said, into a line of the teacher's table; and names of hand-ins. */
#include "lessons/grade/grade.c"
#include "fuzz.h"

FUZZ(in) {
    char *text = fuzz_text(in), *line = NULL;
    size_t length;
    gs_hand_in h = {.student = text, .path = text};
    snprintf(h.lab, sizeof h.lab, "%s", text);
    snprintf(h.problem, sizeof h.problem, "%s", text);
    for (int json = 0; json < 2; json++) {
        cJSON *grade = cJSON_Parse(text);
        FILE *f = open_memstream(&line, &length);
        if (json)
            print_json(f, &h, grade);
        else
            print_csv(f, &h, grade);
        if (fclose(f) != 0) fuzz_wrong("no memory for a line");
        if (strchr(line, '\n') != line + length - 1 && !json) fuzz_wrong("not one line: %s", line);
        free(line);
        cJSON_Delete(grade);
    }
    free(text);
}
