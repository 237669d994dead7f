/* Any bytes as a mangled name: libiberty's own parsers, held in by our bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char out[DEMANGLE_MAX];
	char *name = malloc(size + 3);

	name[0] = '_';
	name[1] = size && data[0] & 1 ? 'Z' : 'R';
	memcpy(name + 2, data, size);
	name[size + 2] = '\0';
	if (demangle(name, out) >= DEMANGLE_MAX || strlen(out) >= DEMANGLE_MAX)
		__builtin_trap();
	free(name);
	return 0;
}
