/* Nettle 3 takes the number of digest bytes as an argument; Nettle 4 always writes all of them. */
#pragma once

#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <nettle/version.h>

/* function: sha256_digest, hmac_sha256_digest; digest: SHA256_DIGEST_SIZE bytes */
#if NETTLE_VERSION_MAJOR >= 4
#define GS_DIGEST(function, context, digest) function(context, digest)
#else
#define GS_DIGEST(function, context, digest) function(context, SHA256_DIGEST_SIZE, digest)
#endif
