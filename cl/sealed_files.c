#include "cl/sealed.h"

const gs_cl_sealed gs_cl_sealed_files[] = {{NULL, NULL, 0, 0}};
