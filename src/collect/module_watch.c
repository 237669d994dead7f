#include "collect/module_watch.h"

#include <errno.h>

#include <bpf/libbpf.h>

#include "base/mem.h"
#include "modules.skel.h"

struct module_watch {
	struct modules *bpf;
};

void module_watch_free(struct module_watch *w)
{
	if (!w)
		return;
	modules__destroy(w->bpf);
	free(w);
}

/* A kernel without modules does not have these tracepoints. */
static int attach(struct bpf_program *p, struct bpf_link **ret)
{
	*ret = bpf_program__attach(p);
	return *ret || errno == ENOENT ? 0 : -errno;
}

int module_watch_new(struct module_watch **ret)
{
	/* The caller's own words tell what fails. */
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct module_watch *w = mem_alloc(sizeof(*w));
	w->bpf = modules__open_and_load();
	int r = w->bpf ? 0 : errno ? -errno : -EIO;
	r = r ? r : attach(w->bpf->progs.loaded, &w->bpf->links.loaded);
	r = r ? r : attach(w->bpf->progs.freed, &w->bpf->links.freed);
	libbpf_set_print(print);

	if (r) {
		module_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

uint64_t module_watch_changed_ns(const struct module_watch *w)
{
	return __atomic_load_n(&w->bpf->bss->changed_ns, __ATOMIC_ACQUIRE);
}
