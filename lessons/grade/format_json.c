/* One JSON object per student and lab, each on its own line (mark.h). */
#include "io/json.h"
#include "lessons/grade/format.h"

static void student(FILE *out, const gs_labs *labs, const cJSON *marks) {
    const cJSON *mark;
    (void)labs;
    cJSON_ArrayForEach(mark, marks) {
        char *text = gs_json_to_text(mark, false);
        if (text) fprintf(out, "%s\n", text);
        cJSON_free(text);
    }
}

const gs_format gs_format_json = {
    .name = "json", .what = "an object for each student and lab, one a line", .student = student};
