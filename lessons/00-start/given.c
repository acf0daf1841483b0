/* Lab 0, as given: how the student's relu gets into the framework. */
#include "lab.h"
#include "tasks.h"

/* Every device "cpu" that opens after this uses the edited table. */
static void edit(gs_backend *table) {
    table->relu_forward = relu_forward;
}

void lab_install(void) {
    gs_backend_replace(edit);
}
