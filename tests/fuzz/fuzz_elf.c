/* Any bytes as a program, and as a separate debug file: its table is built and addresses all over
 * it are named. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/file_symbols.h"
#include "symbol/symbols.h"

static void read_debug_file(int fd, size_t size)
{
	struct file_symbols_source source = {.fd = fd, .is_debug_file = true};
	struct file_symbols_hit hit;
	struct file_symbols *o;
	enum frame_kind kind;
	char name[DEMANGLE_MAX];

	if (file_symbols_open(&source, 1 << 16, &o) < 0)
		return;
	for (uint64_t at = 0; at < size + 4096; at += size / 64 + 1)
		if (file_symbols_find(o, at, &hit) == 0)
			file_symbols_name(o, &hit, name, &kind);
	file_symbols_free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		close(fd);
		return 0;
	}

	read_debug_file(fd, size);
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
