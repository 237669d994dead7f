#include <ctype.h>
#include <errno.h>
#include <linux/version.h>
#include <stdarg.h>
#include <sys/capability.h>

#include "arch/arch.h"
#include "base/log.h"
#include "base/mem.h"
#include "collect/probe.h"

static __attribute__((format(printf, 3, 4))) void add(char *buf, size_t size, const char *fmt, ...)
{
	size_t n = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + n, size - n, fmt, ap);
	va_end(ap);
}

/* "CAP_BPF", "CAP_BPF and CAP_PERFMON": the needed ones that are not held. */
static size_t missing(const struct probe_facts *f, char *buf, size_t size)
{
	size_t count = 0;

	*buf = '\0';
	for (const struct probe_cap *c = probe_caps; c->name; c++)
		if (c->needed && !probe_has_cap(f, c->bit))
			add(buf, size, "%s%s", count++ ? " and " : "", c->name);
	return count;
}

void probe_remedy(const struct probe_facts *f, char *buf, size_t size)
{
	bool never = false;

	*buf = '\0';
	for (const struct probe_cap *c = probe_caps; c->name; c++)
		never |= c->needed && !(f->bounding & (1ull << c->bit | 1ull << CAP_SYS_ADMIN));

	if (!f->initial_users) {
		add(buf, size, "run it outside of this user namespace, as root on the host");
	} else if (never) {
		add(buf, size,
		    "root gets none here either: start the container with "
		    "--cap-add=BPF --cap-add=PERFMON (or --privileged)");
	} else if (f->no_new_privs) {
		add(buf, size,
		    "this process may gain no privileges (no_new_privs): run it from a "
		    "shell outside of this sandbox");
	} else {
		add(buf, size, "run 'sudo %s'", f->command);
		add(buf, size, ", or once 'sudo setcap ");
		for (const struct probe_cap *c = probe_caps; c->name; c++) {
			add(buf, size, "%s", c == probe_caps ? "" : ",");
			for (const char *s = c->name; *s; s++)
				add(buf, size, "%c", tolower(*s));
		}
		add(buf, size, "+ep %s'", f->exe);
		if (f->paranoid >= 3)
			add(buf, size, " and 'sudo sysctl kernel.perf_event_paranoid=2'");
	}
}

/* EPERM and EACCES. */
static bool explain_refused(const struct probe_facts *f, char *buf, size_t size)
{
	char names[64];
	size_t count = missing(f, names, sizeof(names));

	if (count || !f->initial_users) {
		if (count)
			add(buf, size,
			    "recording needs %s, which this process does not have: ", names);
		else
			add(buf, size,
			    "the capabilities of a user namespace do not reach the kernel: ");
		probe_remedy(f, buf + strlen(buf), size - strlen(buf));
	} else if (f->locked) {
		add(buf, size,
		    "the kernel is locked down (confidentiality), which refuses BPF and perf "
		    "to everyone: boot with lockdown=integrity or none");
	} else if (f->paranoid >= 3 && !(f->caps & 1ull << CAP_SYS_ADMIN)) {
		add(buf, size,
		    "kernel.perf_event_paranoid=%d refuses CAP_PERFMON and asks for "
		    "CAP_SYS_ADMIN: run 'sudo sysctl kernel.perf_event_paranoid=2'"
		    " once, or 'sudo %s'",
		    f->paranoid, f->command);
	} else if (f->seccomp == 2) {
		add(buf, size,
		    "a seccomp filter refuses bpf() or perf_event_open(): start the container "
		    "with a profile that allows them (--security-opt seccomp=unconfined)");
	} else {
		return false;
	}
	return true;
}

int probe_explain_facts(const struct probe_facts *f, int err, char *buf, size_t size)
{
	bool known = false;

	if (size == 0)
		return -ENOENT;
	*buf = '\0';
	if (err == -EPERM || err == -EACCES)
		known = explain_refused(f, buf, size);
	if (!known && f->kernel && f->kernel < KERNEL_VERSION(5, ARCH_MIN_KERNEL_MINOR, 0)) {
		add(buf, size, "this kernel is %s, and recording needs 5.%d or later", f->release,
		    ARCH_MIN_KERNEL_MINOR);
		known = true;
	}
	if (!known && !f->btf) {
		add(buf, size,
		    "this kernel has no BTF (/sys/kernel/btf/vmlinux), which recording needs: "
		    "boot one built with CONFIG_DEBUG_INFO_BTF, as distributions' are");
		known = true;
	}
	if (!known && err == -ENOSYS) {
		add(buf, size,
		    "this kernel is built without bpf() or perf_event_open(), or a sandbox "
		    "hides them: boot one with CONFIG_BPF_SYSCALL and CONFIG_PERF_EVENTS");
		known = true;
	}
	if (!known)
		add(buf, size, "%s", strerror(err < 0 ? -err : err));
	return known ? 0 : -ENOENT;
}

int probe_explain(int err, char *buf, size_t size)
{
	struct probe_facts f;

	probe_facts_read(&f);
	return probe_explain_facts(&f, err, buf, size);
}

void probe_cannot_sample(int err, const struct sampler_error *why)
{
	bool is_event = strcmp(why->doing, SAMPLER_OPENING_EVENT) == 0;
	char text[1024];

	if (is_event && (err == -EINVAL || err == -ENOENT || err == -EOPNOTSUPP)) {
		log_error("cannot %s '%s': %s", why->doing, why->event,
			  err == -EINVAL
				  ? "the kernel rejects this rate or period"
				  : "this machine does not have it; cpu-clock works everywhere");
		return;
	}
	if (strcmp(why->doing, SAMPLER_TELLING_PROCESSES) == 0) {
		log_error("cannot %s: %s", why->doing,
			  err == -EXDEV
				  ? "/proc belongs to another pid namespace, so its pids are not "
				    "ours; 'mount -t proc proc /proc', or unshare with "
				    "--mount-proc"
				  : "/proc is not mounted; 'mount -t proc proc /proc'");
		return;
	}
	probe_explain(err, text, sizeof(text));
	log_error("cannot %s: %s", why->doing, text);
	if (why->detail[0])
		log_debug("%s", why->detail);
}
