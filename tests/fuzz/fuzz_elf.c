/* Any bytes as a program: its table is built and addresses all over it are named. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		close(fd);
		return 0;
	}

	struct symbols *s = symbols_new(1 << 20);
	struct symbols_file f = {.path = "/nowhere/fuzz", .fd = fd};
	uint32_t file = symbols_add_file(s, &f);
	struct symbols_module m;
	struct symbol sym;
	symbols_module(s, file, &m);
	uint64_t step = size / 64 + 1;
	for (uint64_t at = 0; at < size + 4096; at += step) {
		symbols_find(s, file, at, &sym);
		if (strlen(sym.name) > 8192)
			__builtin_trap();
	}
	for (uint64_t at = m.offset; at < m.offset + 64; at++)
		symbols_find(s, file, at, &sym);
	symbols_free(s);
	return 0;
}
