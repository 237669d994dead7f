#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/mem.h"

int program_become_invoker(void)
{
	const char *uid_text = getenv("SUDO_UID"), *gid_text = getenv("SUDO_GID");

	if (geteuid() != 0 || !uid_text || !gid_text)
		return 0;
	uid_t uid = (uid_t)strtoul(uid_text, NULL, 10);
	gid_t gid = (gid_t)strtoul(gid_text, NULL, 10);
	const struct passwd *pw = getpwuid(uid);
	if (uid == 0)
		return 0;
	if ((pw ? initgroups(pw->pw_name, gid) : setgroups(0, NULL)) != 0 || setgid(gid) != 0 ||
	    setuid(uid) != 0)
		return -errno;
	if (pw) {
		setenv("HOME", pw->pw_dir, 1);
		setenv("USER", pw->pw_name, 1);
		setenv("LOGNAME", pw->pw_name, 1);
	}
	return 0;
}

static _Noreturn void child(int go, int status, char **argv)
{
	char byte;
	ssize_t n = read(go, &byte, 1);
	if (n != 1)
		_exit(0); /* the profiler gave up */

	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	int err = -program_become_invoker();
	if (!err) {
		execvp(argv[0], argv);
		err = errno;
	}
	if (write(status, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}

int program_start(struct program *p, char **argv)
{
	int go[2], status[2];

	*p = (struct program){.pid = -1, .go_fd = -1, .status_fd = -1};
	if (pipe2(go, O_CLOEXEC) != 0)
		return -errno;
	if (pipe2(status, O_CLOEXEC) != 0) {
		int r = -errno;
		close(go[0]);
		close(go[1]);
		return r;
	}

	p->pid = fork();
	if (p->pid == 0) {
		close(go[1]); /* or it would never see the profiler give up */
		child(go[0], status[1], argv);
	}
	int r = p->pid < 0 ? -errno : 0;
	close(go[0]);
	close(status[1]);
	p->go_fd = go[1];
	p->status_fd = status[0];
	if (r)
		program_done(p);
	return r;
}

int program_go(struct program *p)
{
	int err = 0;

	if (write(p->go_fd, "", 1) != 1)
		return -errno;
	ssize_t n = read(p->status_fd, &err, sizeof(err));
	close(TAKE_FD(p->go_fd));
	close(TAKE_FD(p->status_fd));
	return n == sizeof(err) ? -err : 0;
}

int program_exit_code(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

void program_done(struct program *p)
{
	fd_closep(&p->go_fd);
	fd_closep(&p->status_fd);
	p->go_fd = p->status_fd = -1;
}
