/* Any bytes as /proc/kallsyms, and as the kernel's answer to one address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/kallsyms.h"
#include "symbol/ksym.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const uint8_t *data, size_t size)
{
	char path[64];
	struct kallsyms *k;
	struct symbol sym;
	const char *module;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0 &&
	    kallsyms_load(path, &k) == 0) {
		for (uint64_t ip = 0; ip < 1 << 16; ip += 1 << 8)
			kallsyms_find(k, ip, &sym, &module);
		for (uint64_t ip = UINT64_MAX; ip > UINT64_MAX - (64ull << 20); ip -= 1 << 20)
			if (kallsyms_find(k, ip, &sym, &module) == 0 && strlen(module) > size)
				__builtin_trap();
		kallsyms_free(k);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name, *text = malloc(size + 1);
	const char *module;
	uint64_t offset, length;

	load(data, size);
	memcpy(text, data, size);
	text[size] = '\0';
	if (ksym_parse(text, &name, &offset, &length, &module) == 0 &&
	    strlen(name) + strlen(module) > size + strlen("[kernel]"))
		__builtin_trap();
	free(text);
	return 0;
}
