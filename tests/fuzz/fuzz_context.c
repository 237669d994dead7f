/* What other processes publish of themselves, and how they name what they map. The first byte says
 * which it is. */
#include <stdlib.h>
#include <string.h>

#include "process/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct context_payload p;
	uint64_t at[CONTEXT_FOUND_MAX];

	if (!size)
		return 0;
	if (data[0] == 'm') {
		char *text = malloc(size);
		memcpy(text, data + 1, size - 1);
		text[size - 1] = '\0';
		if (context_find(text, size - 1, at) > CONTEXT_FOUND_MAX)
			abort();
		free(text);
	} else if (context_payload_read(data + 1, size - 1, &p) == 0) {
		if (strnlen(p.service, sizeof(p.service)) > CONTEXT_VALUE_MAX ||
		    strnlen(p.version, sizeof(p.version)) > CONTEXT_VALUE_MAX ||
		    strnlen(p.environment, sizeof(p.environment)) > CONTEXT_VALUE_MAX)
			abort();
	}
	return 0;
}
