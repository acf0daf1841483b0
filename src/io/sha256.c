#include "io/file.h"
#include "core/nettle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void gs_sha256_end(struct sha256_ctx *context, char hex[65]) {
    uint8_t digest[SHA256_DIGEST_SIZE];
    GS_DIGEST(sha256_digest, context, digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void gs_sha256(const void *data, size_t bytes, char hex[65]) {
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, bytes, data);
    gs_sha256_end(&context, hex);
}

gs_status gs_sha256_file(const char *path, char hex[65], uint64_t *bytes) {
    enum { BLOCK = 1 << 20 };
    struct sha256_ctx context;
    uint64_t size;
    FILE *f;
    GS_TRY(gs_file_open_stream(path, &f, &size));
    uint8_t *block = malloc(BLOCK);
    gs_status status = block ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to read %s", path);
    sha256_init(&context);
    *bytes = 0;
    errno = 0;
    for (size_t n; block && (n = fread(block, 1, BLOCK, f)) > 0; *bytes += n)
        sha256_update(&context, n, block);
    if (ferror(f)) status = gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gs_sha256_end(&context, hex);
    free(block);
    fclose(f);
    return status;
}
