/* The files in a tar archive, one after the other, gzipped or not.
 *
 * Format: POSIX.1-2001 (ustar and pax) and GNU tar. Blocks of 512 bytes: for each entry a header, then its bytes,
 * filled up with zeros; two blocks of zeros end the archive. A header holds
 *
 *     offset 0: name (100)   124: size, octal (12)   148: sum of all bytes, octal (8), itself counted as spaces
 *     offset 156: kind, '0' or 0 a file   257: "ustar"   345: what comes before the name and a slash (155)
 *
 * Entries of other kinds (folders, links, long names, pax records) are passed over. Nothing is ever written to a disk,
 * so no name can do harm.
 */
#pragma once

#include "io/unzip.h"

typedef struct gs_tar gs_tar;

/* GS_E_FILE, GS_E_MEMORY, GS_E_FORMAT: it is empty. */
gs_status gs_tar_open(const char *path, gs_tar **out);
void gs_tar_close(gs_tar *);

/* The next file: *name, without folders and valid until the next call, and its size; NULL: there is none. What was not
 * read of the file before is passed over. GS_E_FORMAT: a block that is no header, a file of 2^31 bytes or more, all
 * files together of more than 4 GiB, an archive or a gzip stream that ends early or is damaged. */
gs_status gs_tar_next(gs_tar *, const char **name, size_t *bytes);

/* All of the file that gs_tar_next has just found, to be freed with free(). Memory is asked for only where the archive
 * can fill it. */
gs_status gs_tar_read(gs_tar *, unsigned char **data);
