/*
 * otel: publishes an OpenTelemetry process context by the text of its specification (OTEP 4719),
 * without a line of any SDK: what smolder reads must not depend on how one of them writes.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define OTEL_BYTES 8192

struct otel_header {
	char signature[8];
	uint32_t version, payload_size;
	uint64_t published_at_ns;
	const void *payload;
};

struct otel_bytes {
	uint8_t at[1024];
	size_t len;
};

static struct otel_header *otel_header;

static inline void otel_varint(struct otel_bytes *b, uint64_t n)
{
	for (; n > 127; n >>= 7)
		b->at[b->len++] = (uint8_t)(n | 128);
	b->at[b->len++] = (uint8_t)n;
}

static inline void otel_field(struct otel_bytes *b, unsigned number, const void *at, size_t len)
{
	otel_varint(b, number << 3 | 2);
	otel_varint(b, len);
	memcpy(b->at + b->len, at, len);
	b->len += len;
}

/* A KeyValue of a string, as field `number` of the message that is being made. */
static inline void otel_attribute(struct otel_bytes *b, unsigned number, const char *key,
				  const char *value)
{
	struct otel_bytes any = {}, pair = {};

	otel_field(&any, 1, value, strlen(value));
	otel_field(&pair, 1, key, strlen(key));
	otel_field(&pair, 2, any.at, any.len);
	otel_field(b, number, pair.at, pair.len);
}

static inline void otel_context(struct otel_bytes *b, const char *service, const char *version,
				const char *environment)
{
	struct otel_bytes resource = {};

	otel_attribute(&resource, 1, "service.name", service);
	otel_attribute(&resource, 1, "service.version", version);
	otel_attribute(&resource, 1, "deployment.environment.name", environment);
	otel_attribute(&resource, 1, "service.instance.id", "6d2c5f0e");
	otel_field(b, 1, resource.at, resource.len);
	otel_attribute(b, 2, "threadlocal.schema_version", "tlsdesc_v1_dev");
}

static inline uint64_t otel_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A mapping of the name. `memfd`: else anonymous memory. 0, or -1. */
static inline int otel_map(int memfd)
{
	void *at;

	if (memfd) {
		int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, OTEL_BYTES) != 0)
			return -1;
		at = mmap(NULL, OTEL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		close(fd);
	} else {
		at = mmap(NULL, OTEL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	}
	if (at == MAP_FAILED || madvise(at, OTEL_BYTES, MADV_DONTFORK) != 0)
		return -1;
	otel_header = at;
	return 0;
}

static inline void otel_name(void)
{
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, otel_header, OTEL_BYTES, "OTEL_CTX");
}

static inline void otel_publish(const void *payload, size_t len)
{
	*otel_header = (struct otel_header){
		.version = 2,
		.payload_size = (uint32_t)len,
		.published_at_ns = otel_now(),
		.payload = payload,
	};
	atomic_thread_fence(memory_order_seq_cst);
	memcpy(otel_header->signature, "OTEL_CTX", 8);
	otel_name();
}

static inline void otel_update(const void *payload, size_t len)
{
	uint64_t before = otel_header->published_at_ns, now = otel_now();
	volatile uint64_t *published = &otel_header->published_at_ns;

	*published = 0;
	atomic_thread_fence(memory_order_seq_cst);
	otel_header->payload = payload;
	otel_header->payload_size = (uint32_t)len;
	atomic_thread_fence(memory_order_seq_cst);
	*published = now > before ? now : before + 1;
	otel_name();
}

/* Whether the kernel has names for anonymous memory, as the list of mappings shows. */
static inline int otel_is_named(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	int found = 0;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, ":OTEL_CTX]") != NULL;
	if (f)
		fclose(f);
	return found;
}
