#include "cli/output_options.h"

#include <stdlib.h>

#include "base/log.h"

#define WIDTH_MIN 100
#define WIDTH_MAX 100000

void output_options_help(void)
{
	puts("      --reverse         merge stacks from the leaf, to show callers\n"
	     "      --min-fraction F  leave out frames below this share of the total (0.001)\n"
	     "      --annotations     mark frames: kernel _[k], inlined _[i], JIT _[j]\n"
	     "      --title TEXT      title of the graph\n"
	     "      --width PIXELS    width of the graph (1200)\n"
	     "      --icicle          draw the root at the top\n"
	     "      --idle            wall-clock profiles: show the stacks of idle threads (by\n"
	     "                        default one frame)\n"
	     "      --top ROWS        rows in the format top (30)\n"
	     "  -q, --quiet           print nothing but errors");
}

bool output_options_owns(int opt)
{
	return opt == 'o' || opt == 'f' || opt == 'q' ||
	       (opt >= OUTPUT_REVERSE && opt <= OUTPUT_TOP);
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

bool output_options_set(struct cli_output *o, int opt, const char *arg)
{
	struct render_options *render = &o->options;
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
	case OUTPUT_REVERSE:
		render->tree.reversed = true;
		return true;
	case OUTPUT_MIN_FRACTION:
		return fraction(arg, &render->tree.min_fraction);
	case OUTPUT_ANNOTATIONS:
		render->annotations = true;
		return true;
	case OUTPUT_TITLE:
		render->title = arg;
		return true;
	case OUTPUT_WIDTH:
		if (!cli_number("--width", arg, WIDTH_MIN, WIDTH_MAX, &n))
			return false;
		render->width = (unsigned)n;
		return true;
	case OUTPUT_ICICLE:
		render->icicle = true;
		return true;
	case OUTPUT_IDLE:
		render->tree.idle = true;
		return true;
	default: /* OUTPUT_TOP */
		if (!cli_number("--top", arg, 1, UINT32_MAX, &n))
			return false;
		render->top = (unsigned)n;
		return true;
	}
}
