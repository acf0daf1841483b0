#include "io/file.h"
#include "core/nettle.h"

void gs_sha256(const void *data, size_t bytes, char hex[65]) {
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&context);
    sha256_update(&context, bytes, data);
    GS_DIGEST(sha256_digest, &context, digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}
