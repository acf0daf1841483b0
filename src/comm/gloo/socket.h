/* Descriptors of sockets that Gloo keeps to itself. gloo_c.cc finds one of them here, and puts another socket in its
 * place.
 *
 * A descriptor is a number. It stays the same while what it stands for is exchanged (dup3), so Gloo goes on with a
 * connection that it did not make itself. Addresses are a struct sockaddr_storage, as Gloo hands them out.
 */
#pragma once

#include <stdbool.h>

/* The descriptor of this process's socket that listens at the address, or that is connected to it; -1: none. */
int gs_gloo_socket_at(const void *address);
int gs_gloo_socket_to(const void *address);

/* A socket that listens at 127.0.0.1, and its address. -1: it cannot be made. */
int gs_gloo_listener(void *address);

/* A descriptor to wait for: its event has already happened, or never will. -1: it cannot be made. */
int gs_gloo_event(bool happened);

/* Close what `place` stood for, and let it stand for the same as `by`. */
bool gs_gloo_replace(int place, int by);
