/* Any bytes as a program with debug info: addresses of its code are asked for. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/elf_file.h"
#include "symbol/debug_lines.h"

#define STEP 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct elf_file e;
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || elf_file_init(&e, fd) < 0) {
		close(fd);
		return 0;
	}

	struct debug_lines *l = debug_lines_new(16 << 20);
	struct debug_lines_file f = {.fd = fd};
	struct debug_lines_frame frames[DEBUG_LINES_DEPTH];
	uint32_t file = debug_lines_add_file(l, &f);
	const Elf64_Phdr *text = elf_file_text(&e);
	uint64_t start = text ? text->p_vaddr : 0;
	for (uint64_t at = start; file && at < start + 1024; at += STEP) {
		size_t count = debug_lines_find(l, file, at, frames);
		if (count > DEBUG_LINES_DEPTH)
			__builtin_trap();
		for (size_t i = 0; i < count; i++)
			if (strlen(frames[i].name) + strlen(frames[i].source) > 8192)
				__builtin_trap();
	}
	debug_lines_free(l);
	elf_file_done(&e);
	close(fd);
	return 0;
}
