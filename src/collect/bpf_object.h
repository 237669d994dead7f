/*
 * bpf_object: a BPF object on its way into the kernel: constants that are set before it is loaded,
 * maps that it shares with another one, and what libbpf says when it fails.
 */
#pragma once

#include <stddef.h>

#include <bpf/libbpf.h>

/* Forgets what libbpf said before, and keeps what it says from here on in this thread. */
void bpf_object_listen(void);

/* The verifier's complaint, else libbpf's last line; "" if there was none. */
const char *bpf_object_words(void);

/* Sets a `const volatile` variable, before the object is loaded. 0; -ENOENT: there is none with
 * this name and size. */
int bpf_object_set(struct bpf_object *o, const char *name, const void *value, size_t bytes);

/* Uses maps of `from`, which is loaded, instead of its own: `names` ends with NULL. 0 or -errno. */
int bpf_object_share(struct bpf_object *o, const struct bpf_object *from, const char *const *names);

/*
 * Attaches a program, to run after those that are attached there already, and adds the link to
 * `links`, which has room. Does nothing if the program was not to be loaded. 0 or -errno.
 */
int bpf_object_attach(struct bpf_program *p, struct bpf_link **links, unsigned *count);

/* Gives back the memory of our own executable that holds the BPF objects. They are read from the
 * file again if they are needed. */
void bpf_object_unread(void);

/* Takes them down, the last one first. */
void bpf_object_detach(struct bpf_link **links, unsigned *count);
