/* pages: the lessons for a browser.
 *
 *     pages site TREE FOLDER GRADSUM    a page for each lesson, and for each file that they name
 *     pages slides TREE FOLDER          a lecture for each lesson
 *
 * make lessons-html and make slides call it. */
#include "lessons/pages/site.h"
#include "lessons/pages/slides.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    bool site = argc == 5 && strcmp(argv[1], "site") == 0,
         slides = argc == 4 && strcmp(argv[1], "slides") == 0;
    if (!site && !slides) {
        fprintf(stderr, "usage: pages site TREE FOLDER GRADSUM | pages slides TREE FOLDER\n");
        return 2;
    }
    gs_status status = site ? site_write(argv[2], argv[3], argv[4]) : slides_write(argv[2], argv[3]);
    if (status != GS_OK) fprintf(stderr, "pages: %s\n", gs_message());
    return status == GS_OK ? 0 : 1;
}
