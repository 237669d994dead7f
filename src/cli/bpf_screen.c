#include "cli/bpf_screen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/mem.h"

#define ENTER      "\033[?1049h\033[?25l\033[2J" /* the other screen, no cursor, nothing on it */
#define LEAVE      "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define REST_LINE  "\033[K"
#define REST_BELOW "\033[J"

static bool put(const char *s, size_t len)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, s, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		s += n;
		len -= (size_t)n;
	}
	return true;
}

void bpf_screen_open(struct bpf_screen *s)
{
	if (tcgetattr(STDIN_FILENO, &s->before) == 0) {
		struct termios keys = s->before;
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		s->has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
	}
	s->is_open = put(ENTER, strlen(ENTER));
}

void bpf_screen_close(struct bpf_screen *s)
{
	if (s->is_open)
		put(LEAVE, strlen(LEAVE));
	if (s->has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
	s->is_open = s->has_keys = false;
}

void bpf_screen_size(unsigned *ret_columns, unsigned *ret_lines)
{
	struct winsize size = {};
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;

	*ret_columns = known ? size.ws_col : 80;
	*ret_lines = known ? size.ws_row : 24;
}

bool bpf_screen_show(const char *text, size_t len)
{
	CLEANUP(freep) char *all = NULL;
	size_t size;
	FILE *f = open_memstream(&all, &size);

	if (!f)
		return false;
	fputs(HOME, f);
	for (const char *at = text, *end = text + len; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t line = newline ? (size_t)(newline - at) : (size_t)(end - at);
		fwrite(at, 1, line, f);
		fputs(REST_LINE "\n", f);
		at += line + (newline != NULL);
	}
	fputs(REST_BELOW, f);
	fclose(f);
	return put(all, size);
}
