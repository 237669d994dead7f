#include "base/log.h"
#include "cli/cli.h"

int cmd_explain(int argc, char **argv)
{
	(void)argc, (void)argv;
	log_error("not yet");
	return 1;
}
