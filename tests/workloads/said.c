/*
 * said SERVICE [anon|memfd|late|garbage KIND|torn]: spins, and publishes a process context.
 *
 *	memfd     as a memfd (what it does if nothing is asked for)
 *	anon      as named anonymous memory; says "unnamed" and ends where the kernel has no names
 *	late      three seconds after it began
 *	garbage   what is no context: KIND is one of signature, version, size, pointer, payload,
 *deep torn      changes between two contexts as fast as it can: SERVICE-a 1 in one, SERVICE-b 2
 *
 * SIGUSR1: from then on it is SERVICE-next, version 2.
 */
#include <sys/prctl.h>

#include "otel.h"
#include "workload.h"

static volatile sig_atomic_t changed;
static struct otel_bytes first, second;

static void on_change(int signo)
{
	(void)signo;
	changed = 1;
}

NOINLINE uint64_t serve(uint64_t until);
uint64_t serve(uint64_t until)
{
	return workload_spin(until);
}

static void publish_garbage(const char *kind)
{
	static uint8_t deep[4096];

	memset(deep, 0x0a, sizeof(deep)); /* field 1 of ten bytes, and so on */
	otel_publish(first.at, first.len);
	if (strcmp(kind, "signature") == 0)
		memcpy(otel_header->signature, "OTEL_CT!", 8);
	else if (strcmp(kind, "version") == 0)
		otel_header->version = 77;
	else if (strcmp(kind, "size") == 0)
		otel_header->payload_size = 0xffffffff;
	else if (strcmp(kind, "pointer") == 0)
		otel_header->payload = (void *)0x1000;
	else if (strcmp(kind, "payload") == 0)
		otel_header->payload = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
	else if (strcmp(kind, "deep") == 0)
		otel_header->payload = deep, otel_header->payload_size = sizeof(deep);
}

int main(int argc, char **argv)
{
	const char *service = argc > 1 ? argv[1] : "said", *how = argc > 2 ? argv[2] : "memfd";
	char name[128];

	otel_context(&first, service, "1.2.3", "staging");
	snprintf(name, sizeof(name), "%s-next", service);
	otel_context(&second, name, "2", "staging");
	if (strcmp(how, "torn") == 0) {
		first.len = second.len = 0;
		snprintf(name, sizeof(name), "%s-a", service);
		otel_context(&first, name, "1", "one");
		snprintf(name, sizeof(name), "%s-b", service);
		otel_context(&second, name, "2", "two");
	}
	signal(SIGUSR1, on_change);
	workload_ready();
	if (strcmp(how, "late") == 0)
		serve(workload_cpu_ns() + 3000000000u);
	if (otel_map(strcmp(how, "anon") != 0) != 0)
		return 1;
	if (strcmp(how, "garbage") == 0 && argc > 3)
		publish_garbage(argv[3]);
	else
		otel_publish(first.at, first.len);
	if (strcmp(how, "anon") == 0 && !otel_is_named()) {
		puts("unnamed");
		return 0;
	}
	puts("published");
	fflush(stdout);
	for (uint64_t i = 0; !workload_stop; i++) {
		if (strcmp(how, "torn") == 0) {
			/* In place, as the specification allows: only the time tells. */
			static struct otel_bytes now;
			volatile uint64_t *published = &otel_header->published_at_ns;
			uint64_t at = *published;
			const struct otel_bytes *next = i % 2 ? &first : &second;
			*published = 0;
			atomic_thread_fence(memory_order_seq_cst);
			memcpy(&now, next, sizeof(now));
			otel_header->payload = now.at;
			otel_header->payload_size = (uint32_t)now.len;
			atomic_thread_fence(memory_order_seq_cst);
			*published = at + 1;
			serve(workload_cpu_ns() + 20000);
			continue;
		}
		serve(workload_cpu_ns() + 1000000);
		if (changed) {
			otel_update(second.at, second.len);
			changed = 0;
		}
	}
}
