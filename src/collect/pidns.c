#include "collect/pidns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

#define INITIAL 0xEFFFFFFCu /* its inode in every kernel since 3.8 */

int pidns_find(uint32_t *ret)
{
	CLEANUP(freep) char *status = NULL;
	struct stat st;
	int first, second;

	if (file_read("/proc/self/status", 64 << 10, &status, NULL) != 0 ||
	    stat("/proc/self/ns/pid", &st) != 0)
		return -ENOENT;
	/* Our number in the namespace of /proc, then in those below it down to ours. */
	const char *line = strstr(status, "\nNSpid:");
	if (line && sscanf(line, "\nNSpid: %d%*[ \t]%d", &first, &second) == 2)
		return -EXDEV;
	*ret = st.st_ino == INITIAL ? 0 : (uint32_t)st.st_ino;
	return 0;
}
