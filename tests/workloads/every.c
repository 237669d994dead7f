/*
 * every: calls of each kind that trace decodes, in the folder argv[1]: what they return, and
 * whether they fail, is of no interest.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static void files(void)
{
	char bytes[100];
	struct stat st;
	struct statx stx;
	struct statfs fs;
	struct timespec times[2] = {{1700000000, 5}, {.tv_nsec = UTIME_OMIT}};
	struct iovec vector[3] = {{bytes, 10}, {bytes + 10, 40}, {bytes + 50, 5}};
	loff_t at = 3;
	DIR *dir;

	for (int i = 0; i < 100; i++)
		bytes[i] = (char)(i * 7);
	int fd = openat(AT_FDCWD, "file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0640);
	int copy = open("copy", O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK | O_DSYNC, 0600);
	open("none", O_RDONLY);
	open(".", O_WRONLY);
	open(".", O_TMPFILE | O_RDWR | O_DIRECTORY, 0600);
	open("file", O_PATH | O_NOFOLLOW);
	openat(99, "file", O_RDONLY | O_SYNC | O_NOATIME);
	write(fd, bytes, sizeof(bytes));
	write(fd, "text\twith\\ \"quotes\"\n\033[31m\001\0017", 28);
	write(fd, "", 0);
	write(fd, "exactly thirty-two bytes of text", 32);
	write(fd, "one byte more than the thirty-two", 33);
	pread(fd, bytes, 20, 0);
	pwrite(fd, bytes, 64, 8);
	lseek(fd, 0, SEEK_SET);
	lseek(fd, 5, SEEK_CUR);
	lseek(fd, -1, SEEK_END);
	lseek(fd, 0, SEEK_DATA);
	lseek(fd, 0, SEEK_HOLE);
	lseek(fd, 0, 77);
	read(fd, bytes, sizeof(bytes));
	lseek(fd, 0, SEEK_SET);
	readv(fd, vector, 3);
	writev(copy, vector, 3);
	writev(copy, vector, 0);
	preadv(fd, vector, 2, 1);
	pwritev(copy, vector, 2, 1);
	preadv2(fd, vector, 2, 1, 0);
	pwritev2(copy, vector, 2, 1, RWF_DSYNC);
	read(fd, NULL, 5);
	read(99, bytes, 5);
	stat("file", &st);
	lstat("link", &st);
	fstat(fd, &st);
	fstat(0, &st);
	stat("/dev/null", &st);
	stat("/dev", &st);
	stat("/tmp", &st);
	stat("none", &st);
	fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH);
	fstatat(AT_FDCWD, "file", &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
	statx(AT_FDCWD, "file", AT_STATX_SYNC_AS_STAT, STATX_BASIC_STATS, &stx);
	statx(AT_FDCWD, "file", AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW, STATX_ALL, &stx);
	statfs("/", &fs);
	fstatfs(fd, &fs);
	access("file", F_OK);
	access("file", R_OK | W_OK | X_OK);
	faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS);
	chmod("file", 0644);
	fchmod(fd, 04755);
	fchmodat(AT_FDCWD, "file", 0600, 0);
	chown("file", (uid_t)-1, 0);
	fchownat(AT_FDCWD, "file", 0, 0, AT_SYMLINK_NOFOLLOW);
	utimensat(AT_FDCWD, "file", times, 0);
	utimensat(AT_FDCWD, "file", NULL, AT_SYMLINK_NOFOLLOW);
	mkdir("folder", 0755);
	mkdirat(AT_FDCWD, "folder", 0700);
	symlink("file", "link");
	symlinkat("file", AT_FDCWD, "link");
	link("file", "other");
	linkat(AT_FDCWD, "file", AT_FDCWD, "other", AT_SYMLINK_FOLLOW);
	readlink("link", bytes, sizeof(bytes));
	readlinkat(AT_FDCWD, "link", bytes, 2);
	rename("other", "another");
	renameat2(AT_FDCWD, "another", AT_FDCWD, "file", RENAME_EXCHANGE);
	renameat2(AT_FDCWD, "another", AT_FDCWD, "file", RENAME_NOREPLACE);
	unlink("another");
	unlinkat(AT_FDCWD, "folder", AT_REMOVEDIR);
	rmdir("folder");
	truncate("file", 50);
	ftruncate(fd, 60);
	fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096);
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	fsync(fd);
	fdatasync(fd);
	flock(fd, LOCK_EX | LOCK_NB);
	flock(fd, LOCK_UN);
	umask(022);
	getcwd(bytes, sizeof(bytes));
	getcwd(bytes, 2);
	sendfile(copy, fd, NULL, 5);
	at = 3;
	sendfile(copy, fd, &at, 5);
	copy_file_range(fd, &at, copy, NULL, 4, 0);
	dir = opendir(".");
	readdir(dir);
	closedir(dir);
	close(copy);
	close(99);
	close(fd);
	chdir("none");
}

static void descriptors(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 2};
	struct winsize size;
	struct termios modes;
	int ends[2], n = 1, fd = open("file", O_RDWR | O_CREAT, 0600);

	pipe(ends);
	pipe2(ends, O_CLOEXEC | O_NONBLOCK);
	dup(fd);
	dup2(fd, 60);
	dup3(fd, 61, O_CLOEXEC);
	fcntl(fd, F_GETFL);
	fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND);
	fcntl(fd, F_GETFD);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_GETFD);
	fcntl(fd, F_DUPFD, 70);
	fcntl(fd, F_DUPFD_CLOEXEC, 0);
	fcntl(fd, F_SETLK, &lock);
	fcntl(fd, F_GETLK, &lock);
	fcntl(ends[0], F_GETPIPE_SZ);
	fcntl(ends[0], F_SETPIPE_SZ, 4096);
	fcntl(fd, F_GETOWN);
	fcntl(fd, F_SETOWN, 1);
	fcntl(fd, F_GETSIG);
	fcntl(fd, F_SETLEASE, F_RDLCK);
	fcntl(fd, F_GETLEASE);
	fcntl(fd, F_GET_SEALS);
	fcntl(fd, 9999, 5);
	int memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	fcntl(memory, F_GET_SEALS);
	ioctl(ends[0], FIONREAD, &n);
	ioctl(ends[0], FIONBIO, &n);
	ioctl(fd, FIOCLEX);
	ioctl(0, TCGETS, &modes);
	ioctl(0, TIOCGWINSZ, &size);
	ioctl(fd, TIOCGPGRP, &n);
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE | IN_ONLYDIR);
	inotify_rm_watch(watch, 1);
	CALL(close_range, 200u, 300u, 0u);
}

static void sockets(void)
{
	struct sockaddr_in four = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "socket"};
	struct sockaddr_un hidden = {.sun_family = AF_UNIX, .sun_path = "\0smolder-every"};
	struct sockaddr_nl link = {.nl_family = AF_NETLINK, .nl_groups = 1};
	struct sockaddr_storage any;
	struct linger linger = {1, 5};
	struct timeval timeout = {1, 500000};
	struct ucred peer;
	socklen_t len = sizeof(any);
	char bytes[64] = "a message of more than thirty-two bytes, of which some are shown";
	int pair[2], n = 1;

	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	int udp = socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
	int local = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int kernel = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ARP));
	socket(99, 99, 99);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &n, sizeof(n));
	setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &n, sizeof(n));
	setsockopt(listener, IPPROTO_IP, IP_TTL, &n, sizeof(n));
	setsockopt(udp, IPPROTO_IPV6, IPV6_V6ONLY, &n, sizeof(n));
	len = sizeof(n);
	getsockopt(listener, SOL_SOCKET, SO_ERROR, &n, &len);
	getsockopt(listener, SOL_SOCKET, SO_TYPE, &n, &len);
	getsockopt(listener, SOL_SOCKET, SO_RCVBUF, &n, &len);
	bind(listener, (void *)&four, sizeof(four));
	bind(udp, (void *)&six, sizeof(six));
	bind(local, (void *)&path, sizeof(path));
	bind(local, (void *)&hidden, sizeof(sa_family_t) + 14);
	bind(kernel, (void *)&link, sizeof(link));
	bind(kernel, (void *)&link, 1);
	listen(listener, 5);
	len = sizeof(four);
	getsockname(listener, (void *)&four, &len);
	len = sizeof(any);
	getsockname(udp, (void *)&any, &len);
	len = 4;
	getsockname(udp, (void *)&any, &len);
	len = sizeof(any);
	getpeername(listener, (void *)&any, &len);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	connect(client, (void *)&four, sizeof(four));
	len = sizeof(any);
	int server = accept4(listener, (void *)&any, &len, SOCK_CLOEXEC);
	accept(listener, NULL, NULL);
	send(client, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_MORE);
	send(client, bytes, 5, MSG_DONTWAIT);
	usleep(10000);
	recv(server, bytes, 10, MSG_PEEK);
	recv(server, bytes, sizeof(bytes), 0);
	len = sizeof(any);
	recvfrom(server, bytes, sizeof(bytes), MSG_DONTWAIT, (void *)&any, &len);
	sendto(udp, bytes, 5, 0, (void *)&six, sizeof(six));
	shutdown(client, SHUT_RDWR);
	shutdown(server, SHUT_RD);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	len = sizeof(peer);
	getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &len);

	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec vector[2] = {{bytes, 5}, {bytes + 5, 45}};
	struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
	sendmsg(pair[0], &message, 0);
	recvmsg(pair[1], &message, MSG_DONTWAIT);
	memcpy(CMSG_DATA(&control.head), &(int){1}, sizeof(int));
	message.msg_control = &control;
	message.msg_controllen = sizeof(control);
	sendmsg(pair[0], &message, MSG_NOSIGNAL);
	recvmsg(pair[1], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	recvmsg(pair[1], &message, MSG_DONTWAIT);
}

static void waits(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLONESHOT, .data.u64 = 5},
			   events[4];
	struct timespec short_time = {0, 1000000}, none = {};
	struct timeval tv = {0, 2000}, now;
	struct itimerspec every = {.it_value = {0, 5000000}}, rest;
	struct itimerval timer = {.it_value = {5, 0}}, was;
	fd_set in, out;
	sigset_t set;
	int ends[2];
	uint64_t value = 1;

	pipe(ends);
	struct pollfd fds[3] = {
		{ends[0], POLLIN, 0}, {ends[1], POLLOUT | POLLIN, 0}, {-1, POLLPRI, 0}};
	poll(fds, 1, 0);
	poll(fds, 1, 3);
	poll(fds, 3, -1);
	poll(NULL, 0, 1);
	ppoll(fds, 2, &short_time, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	ppoll(fds, 1, &none, &set);
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(ends[0], &in);
	FD_SET(ends[1], &out);
	CALL(select, ends[1] + 1, &in, NULL, NULL, &tv);
	FD_SET(ends[0], &in);
	CALL(select, ends[1] + 1, &in, &out, NULL, NULL);
	FD_SET(ends[0], &in);
	pselect(ends[1] + 1, &in, NULL, NULL, &short_time, &set);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &event);
	epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &event);
	epoll_wait(ep, events, 4, 0);
	epoll_wait(ep, events, 4, 2);
	write(ends[1], "x", 1);
	epoll_wait(ep, events, 4, -1);
	epoll_pwait(ep, events, 4, 1, &set);
	epoll_ctl(ep, EPOLL_CTL_MOD, ends[0], &event);
	epoll_ctl(ep, EPOLL_CTL_DEL, ends[0], NULL);
	nanosleep(&short_time, NULL);
	nanosleep(&short_time, &none);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &short_time, NULL);
	clock_nanosleep(CLOCK_REALTIME, 0, &short_time, NULL);
	CALL(clock_gettime, CLOCK_PROCESS_CPUTIME_ID, NULL);
	CALL(clock_getres, CLOCK_MONOTONIC_RAW, &none);
	CALL(clock_getres, CLOCK_BOOTTIME, &none);
	CALL(clock_getres, CLOCK_REALTIME_COARSE, &none);
	CALL(gettimeofday, &now, NULL);
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	timerfd_settime(fd, 0, &every, &rest);
	timerfd_settime(fd, TFD_TIMER_ABSTIME, &every, NULL);
	timerfd_gettime(fd, &rest);
	fd = eventfd(3, EFD_CLOEXEC | EFD_SEMAPHORE);
	write(fd, &value, sizeof(value));
	read(fd, &value, sizeof(value));
	signalfd(-1, &set, SFD_CLOEXEC);
	setitimer(ITIMER_REAL, &timer, &was);
	setitimer(ITIMER_REAL, &was, NULL);
	getitimer(ITIMER_VIRTUAL, &was);
	alarm(0);

	static uint32_t word = 5, second;
	CALL(futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 6, NULL);
	CALL(futex, &word, FUTEX_WAIT, 5, &short_time);
	CALL(futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 5,
	     &short_time, NULL, FUTEX_BITSET_MATCH_ANY);
	CALL(futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
	CALL(futex, &word, FUTEX_WAKE, INT32_MAX);
	CALL(futex, &word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 3);
	CALL(futex, &word, FUTEX_REQUEUE | FUTEX_PRIVATE_FLAG, 1, 2, &second);
	CALL(futex, &word, FUTEX_CMP_REQUEUE, 1, 2, &second, 5);
	CALL(futex, &word, FUTEX_WAKE_OP, 1, 1, &second,
	     FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_EQ, 1));
	CALL(futex, &second, FUTEX_TRYLOCK_PI);
	CALL(futex, &second, FUTEX_UNLOCK_PI);
	CALL(futex, &word, 99, 1);
}

static void memory(void)
{
	size_t page = 4096, len = 4 * page;
	int fd = open("file", O_RDWR);

	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_GROWSDOWN, -1, 0);
	mmap(NULL, 2 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
	     0);
	mmap(p, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_LOCKED,
	     -1, 0);
	mmap(p, page, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, (off_t)page);
	mmap(NULL, 0, PROT_READ, 0, 99, 0);
	mprotect(p, page, PROT_READ | PROT_EXEC);
	mprotect(p, page, PROT_READ | PROT_WRITE);
	for (int advice = 0; advice <= 25; advice++)
		if (advice != MADV_HWPOISON && advice != 9)
			madvise(p + page, page, advice);
	mlock(p, page);
	munlock(p, page);
	msync(p, page, MS_SYNC | MS_INVALIDATE);
	msync(p, page, MS_ASYNC);
	p = mremap(p, len, 2 * len, MREMAP_MAYMOVE);
	mremap(p, 2 * len, len, 0);
	munmap(p, len);
	CALL(brk, 0);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void signals(void)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER}, old;
	struct timespec none = {};
	stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = (size_t)SIGSTKSZ}, before;
	sigset_t set;

	sigfillset(&act.sa_mask);
	sigaction(SIGUSR1, &act, &old);
	act.sa_handler = SIG_IGN;
	sigemptyset(&act.sa_mask);
	sigaction(SIGUSR2, &act, &old);
	act.sa_handler = SIG_DFL;
	sigaction(SIGUSR2, &act, NULL);
	sigaction(SIGKILL, NULL, &old);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigprocmask(SIG_SETMASK, NULL, &set);
	sigfillset(&set);
	sigdelset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, &set);
	sigpending(&set);
	kill(getpid(), SIGUSR1);
	kill(getpid(), 0);
	CALL(tgkill, getpid(), getpid(), SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigtimedwait(&set, NULL, &none);
	sigaltstack(&stack, &before);
	sigaltstack(NULL, &before);
}

static void processes(void)
{
	struct rlimit limit;
	struct rusage usage;
	struct utsname name;
	struct sysinfo info;
	cpu_set_t cpus;
	siginfo_t how;
	char text[16];
	gid_t groups[8];
	uid_t ids[3];
	int status;

	pid_t pid = fork();
	if (pid == 0)
		_exit(3);
	waitpid(pid, &status, 0);
	pid = fork();
	if (pid == 0) {
		kill(getpid(), SIGTERM);
		_exit(0);
	}
	wait4(pid, &status, WUNTRACED, &usage);
	wait4(-1, &status, WNOHANG, NULL);
	pid = fork();
	if (pid == 0) {
		char *argv[] = {(char *)"/bin/true", (char *)"one", (char *)"two words",
				(char *)"a \"quoted\" one\n\033", NULL};
		char *envp[] = {(char *)"A=1", (char *)"B=2", NULL};
		execve("/nowhere/true", argv, envp);
		execve("/bin/true", argv, envp);
		_exit(1);
	}
	waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT);
	waitid(P_ALL, 0, &how, WEXITED);
	waitid(P_ALL, 0, NULL, WEXITED | WNOHANG);
	pid = vfork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	struct clone_args args = {.flags = CLONE_FS | CLONE_FILES, .exit_signal = SIGCHLD};
	pid = (pid_t)CALL(clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	pid = (pid_t)CALL(clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, NULL, NULL, 0);
	if (pid == 0)
		CALL(exit, 0);
	waitpid(pid, NULL, 0);

	getrlimit(RLIMIT_NOFILE, &limit);
	setrlimit(RLIMIT_CORE, &limit);
	CALL(getrlimit, RLIMIT_STACK, &limit);
	prlimit(0, RLIMIT_AS, NULL, &limit);
	prlimit(0, RLIMIT_MEMLOCK, &limit, NULL);
	prlimit(0, (enum __rlimit_resource)99, NULL, &limit);
	getrusage(RUSAGE_SELF, &usage);
	getrusage(RUSAGE_CHILDREN, &usage);
	getpriority(PRIO_PROCESS, 0);
	setpriority(PRIO_PROCESS, 0, 1);
	uname(&name);
	sysinfo(&info);
	sched_yield();
	sched_getaffinity(0, sizeof(cpus), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	sched_get_priority_max(SCHED_FIFO);
	prctl(PR_SET_NAME, "every");
	prctl(PR_GET_NAME, text);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PDEATHSIG, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	prctl(PR_CAPBSET_READ, 5);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_GET_SECCOMP);
	prctl(PR_SET_KEEPCAPS, 0);
	prctl(9999, 1);
	CALL(getrandom, text, 16, 1);
	getgroups(8, groups);
	getresuid(&ids[0], &ids[1], &ids[2]);
	setpgid(0, 0);
	getpgid(0);
	getsid(0);
	CALL(getcpu, ids, NULL, NULL);
	CALL(set_robust_list, NULL, 24);
}

int main(int argc, char **argv)
{
	if (argc < 2 || chdir(argv[1]) != 0)
		return 1;
	files();
	descriptors();
	sockets();
	waits();
	memory();
	signals();
	processes();
	return 0;
}
