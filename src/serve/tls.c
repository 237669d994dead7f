#include "serve/tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "arch/arch.h"
#include "base/library.h"
#include "base/mem.h"

#define LIBRARY "libgnutls.so.30"

/* What libmicrohttpd calls, each in its slot of the table. */
#define EACH(X)                                                                                    \
	X(0, global_init)                                                                          \
	X(1, global_deinit)                                                                        \
	X(2, strerror)                                                                             \
	X(3, alpn_set_protocols)                                                                   \
	X(4, bye)                                                                                  \
	X(5, certificate_allocate_credentials)                                                     \
	X(6, certificate_free_credentials)                                                         \
	X(7, certificate_server_set_request)                                                       \
	X(8, certificate_set_dh_params)                                                            \
	X(9, certificate_set_retrieve_function2)                                                   \
	X(10, certificate_set_retrieve_function3)                                                  \
	X(11, certificate_set_x509_key_mem)                                                        \
	X(12, certificate_set_x509_key_mem2)                                                       \
	X(13, certificate_set_x509_trust_mem)                                                      \
	X(14, cipher_get)                                                                          \
	X(15, credentials_set)                                                                     \
	X(16, deinit)                                                                              \
	X(17, dh_params_deinit)                                                                    \
	X(18, dh_params_import_pkcs3)                                                              \
	X(19, dh_params_init)                                                                      \
	X(20, handshake)                                                                           \
	X(21, init)                                                                                \
	X(22, priority_deinit)                                                                     \
	X(23, priority_init)                                                                       \
	X(24, priority_set)                                                                        \
	X(25, protocol_get_version)                                                                \
	X(26, psk_allocate_server_credentials)                                                     \
	X(27, psk_free_server_credentials)                                                         \
	X(28, psk_set_server_credentials_function)                                                 \
	X(29, record_check_pending)                                                                \
	X(30, record_get_direction)                                                                \
	X(31, record_recv)                                                                         \
	X(32, record_send)                                                                         \
	X(33, session_get_ptr)                                                                     \
	X(34, session_set_ptr)                                                                     \
	X(35, transport_set_int2)

/* Called when the program starts, by libmicrohttpd: that succeeds, and does nothing. */
static int nothing(void)
{
	return 0;
}

static int not_loaded(void)
{
	return -1;
}

static const char *strerror_not_loaded(void)
{
	return "libgnutls is not loaded";
}

#define CALLS 36
void *tls_calls[CALLS] = {
	(void *)nothing,
	(void *)nothing,
	(void *)strerror_not_loaded,
	[3 ... CALLS - 1] = (void *)not_loaded,
};

/* The functions themselves: arguments stay where they are, so no prototype is needed. */
#define DEFINE(slot, name)                                                                         \
	__asm__(".text\n.globl gnutls_" #name "\n.hidden gnutls_" #name "\n.type gnutls_" #name    \
		", @function\ngnutls_" #name ":\n" ARCH_JUMP(tls_calls, slot));
EACH(DEFINE)

/* A variable of gnutls: what it allocates with. */
extern void *(*gnutls_malloc)(size_t size);
void *(*gnutls_malloc)(size_t size) = malloc;

int tls_load(const char **ret_why)
{
#define NAME(slot, name) "gnutls_" #name,
	static const char *const names[CALLS] = {EACH(NAME)};
	void *found[CALLS];
	void *library = library_open((const char *const[]){LIBRARY, NULL}, ret_why);

	if (!library)
		return -ENOENT;
	for (size_t i = 0; i < CALLS; i++) {
		found[i] = dlsym(library, names[i]);
		if (!found[i]) {
			*ret_why = dlerror();
			dlclose(library);
			return -ENOENT;
		}
	}
	memcpy(tls_calls, found, sizeof(found));
	return 0;
}
