#include "cli/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/program.h"

#define OPENER "xdg-open"
#define PATIENCE                                                                                   \
	1500 /* ms: what fails does so at once; what works may stay as long as the browser */
#define NO_DISPLAY 200 /* exit code of our own */

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

/* sudo takes away where the user's session is; its usual places are known. */
static void find_session(void)
{
	CLEANUP(freep) char *run = mem_printf("/run/user/%u", (unsigned)getuid());
	CLEANUP(freep) char *wayland = mem_printf("%s/wayland-0", run);
	CLEANUP(freep) char *bus = mem_printf("%s/bus", run);
	CLEANUP(freep) char *address = mem_printf("unix:path=%s", bus);

	if (!is_there(run))
		return;
	setenv("XDG_RUNTIME_DIR", run, 0);
	if (is_there(wayland))
		setenv("WAYLAND_DISPLAY", "wayland-0", 0);
	if (is_there(bus))
		setenv("DBUS_SESSION_BUS_ADDRESS", address, 0);
}

static _Noreturn void child(int status, const char *path)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int err = -program_become_invoker();

	find_session();
	if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY") && !getenv("BROWSER"))
		_exit(NO_DISPLAY);
	setsid();
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (!err && access(path, R_OK) == 0)
		execlp(OPENER, OPENER, path, (char *)NULL);
	err = err ? err : errno;
	if (write(status, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}

/* The exit code of a child that ends soon, 0 of one that goes on. */
static int soon(pid_t pid)
{
	CLEANUP(fd_closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int status = 0;

	if (fd < 0 || poll(&p, 1, PATIENCE) <= 0 || waitpid(pid, &status, WNOHANG) <= 0)
		return 0;
	return program_exit_code(status);
}

void browser_show(const char *path)
{
	CLEANUP(freep) char *whole = realpath(path, NULL);
	int fds[2], err = 0;

	if (!whole || pipe2(fds, O_CLOEXEC) != 0) {
		log_warn("cannot open %s: %s", path, strerror(errno));
		return;
	}
	pid_t pid = fork();
	if (pid == 0)
		child(fds[1], whole);
	close(fds[1]);
	bool failed = pid < 0 || read(fds[0], &err, sizeof(err)) == sizeof(err);
	close(fds[0]);
	int code = failed ? 0 : soon(pid);
	if (failed && err == ENOENT)
		log_warn("cannot open %s in a browser: " OPENER
			 " is not installed (package xdg-utils)",
			 path);
	else if (failed)
		log_warn("cannot open %s in a browser: %s", path, strerror(pid < 0 ? errno : err));
	else if (code == NO_DISPLAY)
		log_warn("cannot open %s in a browser: there is no display here; copy it to a "
			 "machine with a browser",
			 path);
	else if (code)
		log_warn("cannot open %s in a browser: " OPENER
			 " found no program for it (exit code %d)",
			 path, code);
}
