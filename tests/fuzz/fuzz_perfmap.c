/* Any bytes as a JIT map. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/perfmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		close(fd);
		return 0;
	}

	struct perfmap *m = perfmap_new_fd(fd);
	struct symbol sym;
	for (uint64_t addr = 0; addr < 1 << 16; addr += 1 << 8)
		if (perfmap_find(m, addr, &sym) == 0 && strlen(sym.name) == 0)
			__builtin_trap();
	perfmap_find(m, UINT64_MAX, &sym);
	perfmap_free(m);
	return 0;
}
