/* Runs a command, and makes selected system calls of it fail, or sends it a signal during them.
 *
 *   inject TALLY SPEC... -- COMMAND...
 *
 * SPEC is CALL[@WHERE]=ACTION:FROM:COUNT[:STEP]. Calls are counted over all threads of the command, from 1. The action applies
 * to COUNT calls: every STEP-th one, beginning with number FROM. WHERE is a part of the path that the call names, or of the
 * path of its descriptor in /proc ("[timerfd]", "/report.json"). ACTION is the name of an errno or of a signal, "pause" (stop
 * for 50 ms), "cpu" (move the thread to another CPU), or "count" (only count).
 * At the end TALLY contains "MATCHED MET" for each SPEC: the number of calls, and of those with the action. The exit code is
 * that of the command, or 128 plus the signal that killed it.
 *
 * The calls are intercepted by a seccomp filter of the command (no privilege is needed; Linux 5.5), which includes calls
 * without libc. A forked child inherits the filter, but only its "execve" is counted; its other calls are passed on.
 * Operations without a system call, such as reading a clock, cannot be intercepted: see clock.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SPECS = 8, NUMBERS = 4 };
/* The argument of a call that names the file: a descriptor, or a path in argument 0, 1 or 3. */
enum place { NOWHERE = -1, DESCRIPTOR = 0, PATH0 = 10, PATH1 = 11, PATH3 = 13 };

struct call {
  const char *name;
  int numbers[NUMBERS];
  enum place place[NUMBERS];
};

#ifndef SYS_open
#define SYS_open -1
#define SYS_rename -1
#define SYS_mkdir -1
#define SYS_rmdir -1
#define SYS_link -1
#define SYS_unlink -1
#define SYS_epoll_wait -1
#define SYS_epoll_create -1
#define SYS_poll -1
#define SYS_pipe -1
#define SYS_fork -1
#define SYS_vfork -1
#define SYS_eventfd -1
#endif
#ifndef SYS_renameat
#define SYS_renameat -1
#endif

static const struct call CALLS[] = {
    {"open", {SYS_open, SYS_openat, -1, -1}, {PATH0, PATH1}},
    {"read", {SYS_read, -1, -1, -1}, {DESCRIPTOR}},
    {"write", {SYS_write, SYS_writev, -1, -1}, {DESCRIPTOR, DESCRIPTOR}},
    {"fsync", {SYS_fsync, SYS_fdatasync, -1, -1}, {DESCRIPTOR, DESCRIPTOR}},
    {"fchmod", {SYS_fchmod, -1, -1, -1}, {DESCRIPTOR}},
    {"ftruncate", {SYS_ftruncate, -1, -1, -1}, {DESCRIPTOR}},
    /* Matched by the new name, because the old one may be that of a temporary file. */
    {"rename", {SYS_rename, SYS_renameat, SYS_renameat2, -1}, {PATH1, PATH3, PATH3}},
    {"link", {SYS_link, SYS_linkat, -1, -1}, {PATH1, PATH3}},
    {"unlink", {SYS_unlink, SYS_unlinkat, SYS_rmdir, -1}, {PATH0, PATH1, PATH0}},
    {"mkdir", {SYS_mkdir, SYS_mkdirat, -1, -1}, {PATH0, PATH1}},
    {"flock", {SYS_flock, -1, -1, -1}, {DESCRIPTOR}},
    {"stat", {SYS_statx, -1, -1, -1}, {PATH1}},
    {"getdents", {SYS_getdents64, -1, -1, -1}, {DESCRIPTOR}},
    {"timerfd_create", {SYS_timerfd_create, -1, -1, -1}, {NOWHERE}},
    {"timerfd_settime", {SYS_timerfd_settime, -1, -1, -1}, {NOWHERE}},
    {"epoll_create", {SYS_epoll_create1, SYS_epoll_create, -1, -1}, {NOWHERE, NOWHERE}},
    {"epoll_ctl", {SYS_epoll_ctl, -1, -1, -1}, {NOWHERE}},
    {"epoll_wait", {SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, -1}, {NOWHERE, NOWHERE, NOWHERE}},
    {"eventfd", {SYS_eventfd2, SYS_eventfd, -1, -1}, {NOWHERE, NOWHERE}},
    {"fcntl", {SYS_fcntl, -1, -1, -1}, {DESCRIPTOR}},
    {"socketpair", {SYS_socketpair, -1, -1, -1}, {NOWHERE}},
    {"socket", {SYS_socket, -1, -1, -1}, {NOWHERE}},
    {"bind", {SYS_bind, -1, -1, -1}, {NOWHERE}},
    {"listen", {SYS_listen, -1, -1, -1}, {NOWHERE}},
    {"accept", {SYS_accept4, SYS_accept, -1, -1}, {NOWHERE, NOWHERE}},
    {"sleep", {SYS_clock_nanosleep, SYS_nanosleep, -1, -1}, {NOWHERE, NOWHERE}},
    {"thread", {SYS_clone3, SYS_clone, -1, -1}, {NOWHERE, NOWHERE}},
    {"fork", {SYS_clone3, SYS_clone, SYS_fork, SYS_vfork}, {NOWHERE, NOWHERE, NOWHERE, NOWHERE}},
    {"execve", {SYS_execve, -1, -1, -1}, {PATH0}},
    {"wait", {SYS_waitid, SYS_wait4, -1, -1}, {NOWHERE, NOWHERE}},
    {"poll", {SYS_poll, SYS_ppoll, -1, -1}, {NOWHERE, NOWHERE}},
    {"pipe", {SYS_pipe2, SYS_pipe, -1, -1}, {NOWHERE, NOWHERE}},
    {"kill", {SYS_kill, -1, -1, -1}, {NOWHERE}},
    {"mmap", {SYS_mmap, -1, -1, -1}, {NOWHERE}},
    {"mprotect", {SYS_mprotect, -1, -1, -1}, {NOWHERE}},
    {"mlock", {SYS_mlockall, -1, -1, -1}, {NOWHERE}},
    {"brk", {SYS_brk, -1, -1, -1}, {NOWHERE}},
    {"sigaltstack", {SYS_sigaltstack, -1, -1, -1}, {NOWHERE}},
    {"sigaction", {SYS_rt_sigaction, -1, -1, -1}, {NOWHERE}},
    {"getaffinity", {SYS_sched_getaffinity, -1, -1, -1}, {NOWHERE}},
    {"setaffinity", {SYS_sched_setaffinity, -1, -1, -1}, {NOWHERE}},
    {"setscheduler", {SYS_sched_setscheduler, -1, -1, -1}, {NOWHERE}},
    {"getattr", {SYS_sched_getattr, -1, -1, -1}, {NOWHERE}},
    {"setattr", {SYS_sched_setattr, -1, -1, -1}, {NOWHERE}},
    {"prctl", {SYS_prctl, -1, -1, -1}, {NOWHERE}},
    {"getrusage", {SYS_getrusage, -1, -1, -1}, {NOWHERE}},
    /* Readings that need a system call, such as that of CPU time. */
    {"clock", {SYS_clock_gettime, -1, -1, -1}, {NOWHERE}},
    {"getrandom", {SYS_getrandom, -1, -1, -1}, {NOWHERE}},
    {"fallocate", {SYS_fallocate, -1, -1, -1}, {DESCRIPTOR}},
    {"io_uring", {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, -1}, {NOWHERE, NOWHERE, NOWHERE}},
    {"membarrier", {SYS_membarrier, -1, -1, -1}, {NOWHERE}},
    {"getrlimit", {SYS_prlimit64, -1, -1, -1}, {NOWHERE}},
    {"perf_event_open", {SYS_perf_event_open, -1, -1, -1}, {NOWHERE}},
};

static const struct {
  const char *name;
  int number;
} ACTIONS[] = {
    {"E2BIG", E2BIG},   {"EACCES", EACCES}, {"EAGAIN", EAGAIN}, {"EBADF", EBADF},   {"EBUSY", EBUSY},
    {"ECHILD", ECHILD}, {"EDQUOT", EDQUOT}, {"EEXIST", EEXIST}, {"EFAULT", EFAULT}, {"EFBIG", EFBIG},
    {"EINTR", EINTR},   {"EINVAL", EINVAL}, {"EIO", EIO},       {"EMFILE", EMFILE}, {"ENFILE", ENFILE},
    {"ENODEV", ENODEV}, {"ENOENT", ENOENT}, {"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"ENOSYS", ENOSYS},
    {"ENXIO", ENXIO},   {"EPERM", EPERM},   {"EPIPE", EPIPE},   {"EROFS", EROFS},   {"ESRCH", ESRCH},
    {"ECANCELED", ECANCELED}, {"EADDRINUSE", EADDRINUSE}, {"ECONNABORTED", ECONNABORTED}, {"EXDEV", EXDEV},
    {"SIGHUP", -SIGHUP}, {"SIGINT", -SIGINT}, {"SIGKILL", -SIGKILL}, {"SIGPIPE", -SIGPIPE}, {"SIGTERM", -SIGTERM},
    {"SIGCHLD", -SIGCHLD}, {"SIGUSR1", -SIGUSR1}, {"SIGXFSZ", -SIGXFSZ}, {"SIGWINCH", -SIGWINCH},
    {"pause", -1001}, {"cpu", -1002}, {"count", -1003}, {"offline", -1004},
};
enum { PAUSE = -1001, CPU = -1002, COUNT = -1003, OFFLINE = -1004 };

struct spec {
  const struct call *call;
  char where[128];
  int action;
  long from, count, step;
  long matched, met;
};

static struct spec specs[SPECS];
static int spec_count;
static pid_t command;

static void die(const char *what) {
  fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
  _exit(125);
}

static void wrong(const char *text) {
  fprintf(stderr, "inject: cannot read %s\n", text);
  _exit(125);
}

static void parse(const char *text) {
  struct spec *spec = &specs[spec_count++];
  char name[64] = "", action[64] = "";
  const char *equals = strrchr(text, '=');
  if (!equals) wrong(text);
  const char *at = memchr(text, '@', equals - text);
  size_t length = (at ? at : equals) - text;
  if (length >= sizeof name || (at && (size_t)(equals - at) > sizeof spec->where)) wrong(text);
  memcpy(name, text, length);
  if (at) memcpy(spec->where, at + 1, equals - at - 1);
  spec->step = 1;
  spec->from = spec->count = 1;
  if (sscanf(equals + 1, "%63[^:]:%ld:%ld:%ld", action, &spec->from, &spec->count, &spec->step) < 1) wrong(text);
  for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
    if (!strcmp(CALLS[i].name, name)) spec->call = &CALLS[i];
  for (size_t i = 0; i < sizeof ACTIONS / sizeof *ACTIONS; i++)
    if (!strcmp(ACTIONS[i].name, action)) spec->action = ACTIONS[i].number;
  if (!spec->call || !spec->action || spec->step < 1) wrong(text);
}

/* Installs a filter that intercepts the calls of all specs, and returns the descriptor of its notifications. */
static int install(void) {
  struct sock_filter code[2 + 2 * SPECS * NUMBERS];
  int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int s = 0; s < spec_count; s++)
    for (int i = 0; i < NUMBERS; i++) {
      if (specs[s].call->numbers[i] < 0) continue;
      code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)specs[s].call->numbers[i], 0, 1);
      code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no_new_privs");
  int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener < 0) die("seccomp with a listener");
  return listener;
}

static void hand_over(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(socket, &message, 0) != 1) die("sendmsg");
}

static int take_over(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) die("the command could not be prepared");
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return descriptor;
}

/* Reads memory of a thread. The second page may be missing, because a string may end before it. */
static void peek(pid_t thread, unsigned long address, void *to, size_t size) {
  size_t page = 4096 - address % 4096;
  struct iovec local = {to, size}, remote[2] = {{(void *)address, size < page ? size : page}, {(void *)(address + page), size < page ? 0 : size - page}};
  memset(to, 0, size);
  process_vm_readv(thread, &local, 1, remote, remote[1].iov_len ? 2 : 1, 0);
}

static void place_of(const struct seccomp_notif *call, enum place place, char *to, size_t size) {
  *to = 0;
  if (place >= PATH0) {
    peek((pid_t)call->pid, call->data.args[place - PATH0], to, size - 1);
    to[size - 1] = 0;
  } else if (place == DESCRIPTOR) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%u/fd/%d", call->pid, (int)call->data.args[0]);
    ssize_t n = readlink(link, to, size - 1);
    to[n < 0 ? 0 : n] = 0;
  }
}

/* Returns whether a process still runs the program of the command. */
static int is_copy(pid_t process) {
  char link[64], command_exe[PATH_MAX] = "", process_exe[PATH_MAX] = "";
  snprintf(link, sizeof link, "/proc/%d/exe", command);
  if (readlink(link, command_exe, sizeof command_exe - 1) < 0) return 0;
  snprintf(link, sizeof link, "/proc/%d/exe", process);
  return readlink(link, process_exe, sizeof process_exe - 1) > 0 && !strcmp(command_exe, process_exe);
}

static int is_thread_of_command(pid_t thread) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d", command, thread);
  return thread == command || access(path, F_OK) == 0;
}

static int starts_thread(const struct seccomp_notif *call) {
  unsigned long long flags = 0;
  if (call->data.nr == SYS_clone) flags = call->data.args[0];
  if (call->data.nr == SYS_clone3) peek((pid_t)call->pid, call->data.args[0], &flags, sizeof flags);
  return (flags & CLONE_THREAD) != 0;
}

static int matches(const struct spec *spec, const struct seccomp_notif *call) {
  static int executed;
  int which = 0;
  while (which < NUMBERS && spec->call->numbers[which] != call->data.nr) which++;
  if (which == NUMBERS) return 0;
  int is_fork = !strcmp(spec->call->name, "fork"), is_exec = !strcmp(spec->call->name, "execve");
  /* The first "execve" starts the command itself. */
  if (is_exec && !executed++) return 0;
  if (is_exec ? !is_copy((pid_t)call->pid) : !is_thread_of_command((pid_t)call->pid)) return 0;
  if (!strcmp(spec->call->name, "thread") && !starts_thread(call)) return 0;
  if (is_fork && starts_thread(call)) return 0;
  if (!*spec->where) return 1;
  char place[PATH_MAX];
  place_of(call, spec->call->place[which], place, sizeof place);
  return strstr(place, spec->where) != NULL;
}

/* Moves a thread to another one of its allowed CPUs. */
static void move(pid_t thread) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(thread, sizeof allowed, &allowed)) return;
  static int last = -1;
  for (int step = 1; step <= CPU_SETSIZE; step++) {
    int cpu = (last + step) % CPU_SETSIZE;
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    last = cpu;
    sched_setaffinity(thread, sizeof one, &one);
    return;
  }
}

/* Lets a thread run on all CPUs, as the kernel does when the CPU that it is bound to goes offline. */
static void unbind(pid_t thread) {
  cpu_set_t all;
  if (!sched_getaffinity(0, sizeof all, &all)) sched_setaffinity(thread, sizeof all, &all);
}

static void act(int action, pid_t thread) {
  if (action == PAUSE) {
    kill(command, SIGSTOP);
    usleep(50 * 1000);
    kill(command, SIGCONT);
  } else if (action == CPU) {
    move(thread);
  } else if (action == OFFLINE) {
    unbind(thread);
  } else if (action < 0 && action != COUNT) {
    kill(command, -action);
  }
}

/* Handles one intercepted call, unless it was cancelled. */
static void serve(int listener) {
  struct seccomp_notif call;
  memset(&call, 0, sizeof call);
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) return;
  struct seccomp_notif_resp answer = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  struct spec *failing = NULL;
  for (int s = 0; s < spec_count; s++) {
    struct spec *spec = &specs[s];
    if (!matches(spec, &call)) continue;
    long past = ++spec->matched - spec->from;
    if (past < 0 || past % spec->step || spec->met >= spec->count) continue;
    spec->met++;
    if (spec->action > 0) {
      answer.flags = 0;
      answer.error = -spec->action;
      failing = spec;
    } else {
      act(spec->action, (pid_t)call.pid);
    }
  }
  /* A call that a signal cancels is repeated, and then counted again. An error that was not delivered does not count. */
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) && failing) failing->matched--, failing->met--;
}

int main(int argc, char **argv) {
  int i = 2;
  for (; i < argc && strcmp(argv[i], "--"); i++) {
    if (spec_count == SPECS) wrong("so many specs");
    parse(argv[i]);
  }
  if (i + 1 >= argc) wrong("a command line without a command");
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets)) die("socketpair");
  command = fork();
  if (command < 0) die("fork");
  if (!command) {
    /* Kills the command if this process dies, because its calls would block. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int listener = install();
    hand_over(sockets[1], listener);
    close(listener);
    /* A test may run under nohup. */
    signal(SIGHUP, SIG_DFL);
    execvp(argv[i + 1], argv + i + 1);
    die(argv[i + 1]);
  }
  close(sockets[1]);
  int listener = take_over(sockets[0]), status;
  struct pollfd events = {.fd = listener, .events = POLLIN};
  while (waitpid(command, &status, WNOHANG) == 0) {
    /* The timeout is short because the listener has no event for the end of the command while its children run. */
    if (poll(&events, 1, 20) > 0 && events.revents & POLLIN) serve(listener);
  }
  FILE *tally = fopen(argv[1], "w");
  if (!tally) die(argv[1]);
  for (int s = 0; s < spec_count; s++) fprintf(tally, "%ld %ld\n", specs[s].matched, specs[s].met);
  if (fclose(tally)) die(argv[1]);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
