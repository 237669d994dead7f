#include "cli/look.h"

#include <stdlib.h>

#include "base/log.h"

#define WIDTH_MIN 100
#define WIDTH_MAX 100000

void look_help(void)
{
	puts("      --reverse         merge stacks from the leaf on: who calls it\n"
	     "      --min-fraction F  leave out frames below this share of the whole (0.001)\n"
	     "      --annotations     mark kernel frames with _[k], inlined _[i], JIT _[j]\n"
	     "      --title TEXT      above the graph\n"
	     "      --width PIXELS    of the graph (1200)\n"
	     "      --icicle          root at the top\n"
	     "      --top ROWS        of the table 'top' (30)\n"
	     "  -q, --quiet           no words but errors");
}

bool look_owns(int opt)
{
	return opt == 'o' || opt == 'f' || opt == 'q' || (opt >= LOOK_REVERSE && opt <= LOOK_TOP);
}

static bool fraction(const char *arg, double *ret)
{
	char *end;
	double d = strtod(arg, &end);

	if (end == arg || *end || !(d >= 0 && d < 1)) {
		log_error("--min-fraction takes a number from 0 to less than 1, not '%s'", arg);
		return false;
	}
	*ret = d;
	return true;
}

bool look_option(struct cli_output *o, int opt, const char *arg)
{
	struct render_options *look = &o->options;
	uint64_t n;

	switch (opt) {
	case 'o':
		o->path = arg;
		return true;
	case 'f':
		o->format = arg;
		return true;
	case 'q':
		log_level = LOG_QUIET;
		return true;
	case LOOK_REVERSE:
		look->tree.reversed = true;
		return true;
	case LOOK_MIN_FRACTION:
		return fraction(arg, &look->tree.min_fraction);
	case LOOK_ANNOTATIONS:
		look->annotations = true;
		return true;
	case LOOK_TITLE:
		look->title = arg;
		return true;
	case LOOK_WIDTH:
		if (!cli_number("--width", arg, WIDTH_MIN, WIDTH_MAX, &n))
			return false;
		look->width = (unsigned)n;
		return true;
	case LOOK_ICICLE:
		look->icicle = true;
		return true;
	default: /* LOOK_TOP */
		if (!cli_number("--top", arg, 1, UINT32_MAX, &n))
			return false;
		look->top = (unsigned)n;
		return true;
	}
}
