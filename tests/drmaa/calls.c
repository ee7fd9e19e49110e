/*
 * Every function of libdrmaa against a running cluster, as a C program calls them. Owns what the
 * calls must answer; the cluster is the caller's (tests/it/drmaa.rs), named by CB_ENVDIR, with a
 * work directory for the files as argument 1 and the id of a job of elsewhere as argument 2; with
 * "silent" as argument 2 the leader does not answer, and only that is tried; with "full" as many
 * jobs are pending as the cluster allows.
 * Prints "all as expected" at the end, or the line of the first check that fails.
 */
#include "drmaa.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char diag[DRMAA_ERROR_STRING_BUFFER];
#define D diag, sizeof diag
#define ANY DRMAA_JOB_IDS_SESSION_ANY
#define ALL DRMAA_JOB_IDS_SESSION_ALL

static void fail(int line, const char *what)
{
    fprintf(stderr, "calls.c:%d: %s (last diagnosis: %s)\n", line, what, diag);
    exit(1);
}

#define CHECK(condition) do { if (!(condition)) fail(__LINE__, #condition); } while (0)
/* A call must answer a code; the diagnosis of a failure is never empty. */
#define EXPECT(want, call) do { \
    diag[0] = 0; \
    int got_ = (call); \
    if (got_ != (want)) { \
        fprintf(stderr, "calls.c:%d: %s: %d (%s), not %d: %s\n", __LINE__, #call, got_, \
                drmaa_strerror(got_), (want), diag); \
        exit(1); \
    } \
} while (0)
#define OK(call) EXPECT(DRMAA_ERRNO_SUCCESS, call)

static char work[2048];

static drmaa_job_template_t *template_of(const char *command, const char *a, const char *b)
{
    drmaa_job_template_t *jt = NULL;
    const char *args[] = {a, b, NULL};
    OK(drmaa_allocate_job_template(&jt, D));
    OK(drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, command, D));
    OK(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, args, D));
    OK(drmaa_set_attribute(jt, DRMAA_WD, work, D));
    return jt;
}

static void submit(drmaa_job_template_t *jt, char *id, size_t len)
{
    OK(drmaa_run_job(id, len, jt, D));
    OK(drmaa_delete_job_template(jt, D));
}

/* How long what must happen is waited for, seconds: the machine may be busy. */
#define PATIENCE 180

static int state(const char *id)
{
    int ps = -1;
    OK(drmaa_job_ps(id, &ps, D));
    return ps;
}

static void until_state(const char *id, int want)
{
    for (int n = 0; n < 10 * PATIENCE && state(id) != want; n++)
        usleep(100000);
    CHECK(state(id) == want);
}

static void read_file(const char *name, char *text, size_t len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", work, name);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    size_t n = fread(text, 1, len - 1, f);
    text[n] = 0;
    fclose(f);
}

/* A usage value of a finished job. */
static void usage(drmaa_attr_values_t *values, const char *name, char *out, size_t len)
{
    char line[DRMAA_ATTR_BUFFER];
    out[0] = 0;
    while (drmaa_get_next_attr_value(values, line, sizeof line) == DRMAA_ERRNO_SUCCESS)
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '=')
            snprintf(out, len, "%s", line + strlen(name) + 1);
}

static void without_a_session(void)
{
    char text[DRMAA_CONTACT_BUFFER];
    unsigned int major = 0, minor = 9;
    drmaa_job_template_t *jt = NULL;
    OK(drmaa_version(&major, &minor, D));
    CHECK(major == 1 && minor == 0);
    OK(drmaa_get_contact(text, sizeof text, D));
    CHECK(strcmp(text, getenv("CB_ENVDIR")) == 0);
    OK(drmaa_get_DRM_system(text, sizeof text, D));
    CHECK(strncmp(text, "Corral", 6) == 0);
    OK(drmaa_get_DRMAA_implementation(text, sizeof text, D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_get_DRM_system(text, 3, D));
    EXPECT(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_allocate_job_template(&jt, D));
    EXPECT(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_exit(D));
    EXPECT(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_control("1", DRMAA_CONTROL_HOLD, D));
    EXPECT(DRMAA_ERRNO_INVALID_CONTACT_STRING, drmaa_init("nowhere", D));
    CHECK(strstr(diag, "nowhere") != NULL);
    OK(drmaa_init(NULL, D));
    EXPECT(DRMAA_ERRNO_ALREADY_ACTIVE_SESSION, drmaa_init("", D));
    EXPECT(DRMAA_ERRNO_ALREADY_ACTIVE_SESSION, drmaa_init("", NULL, 0));
    CHECK(strlen(drmaa_strerror(DRMAA_ERRNO_INVALID_JOB)) > 0);
    CHECK(strcmp(drmaa_strerror(-5), drmaa_strerror(99)) == 0);
}

static void attributes(void)
{
    drmaa_job_template_t *jt = NULL;
    drmaa_attr_names_t *names = NULL;
    drmaa_attr_values_t *values = NULL;
    char text[DRMAA_ATTR_BUFFER];
    size_t size = 0, seen = 0;
    const char *env[] = {"A=1", "B=x=y", NULL};
    OK(drmaa_get_attribute_names(&names, D));
    OK(drmaa_get_num_attr_names(names, &size));
    while (drmaa_get_next_attr_name(names, text, sizeof text) == DRMAA_ERRNO_SUCCESS) {
        CHECK(strcmp(text, "drmaa_wct_hlimit") != 0);
        seen++;
    }
    CHECK(seen == size && size >= 12);
    drmaa_release_attr_names(names);
    OK(drmaa_get_vector_attribute_names(&names, D));
    OK(drmaa_get_num_attr_names(names, &size));
    CHECK(size == 3);
    drmaa_release_attr_names(names);

    OK(drmaa_allocate_job_template(&jt, D));
    EXPECT(DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE,
           drmaa_get_attribute(jt, DRMAA_REMOTE_COMMAND, text, sizeof text, D));
    OK(drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, "/bin/true", D));
    OK(drmaa_get_attribute(jt, DRMAA_REMOTE_COMMAND, text, sizeof text, D));
    CHECK(strcmp(text, "/bin/true") == 0);
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT,
           drmaa_get_attribute(jt, DRMAA_REMOTE_COMMAND, text, 4, D));
    OK(drmaa_set_vector_attribute(jt, DRMAA_V_ENV, env, D));
    OK(drmaa_get_vector_attribute(jt, DRMAA_V_ENV, &values, D));
    OK(drmaa_get_num_attr_values(values, &size));
    CHECK(size == 2);
    OK(drmaa_get_next_attr_value(values, text, sizeof text));
    CHECK(strcmp(text, "A=1") == 0);
    drmaa_release_attr_values(values);
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_set_attribute(jt, "nonsense", "1", D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_set_attribute(jt, NULL, "1", D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_set_attribute(NULL, DRMAA_WD, "/", D));
    EXPECT(DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT,
           drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, "/no/colon", D));
    EXPECT(DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE,
           drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-n none", D));
    CHECK(strstr(diag, "-n: 'none' is not a number") != NULL);
    /* A diagnosis is cut, never longer than its buffer. */
    char small[8];
    memset(small, 'x', sizeof small);
    CHECK(drmaa_set_attribute(jt, "nonsense", "1", small, 5) == DRMAA_ERRNO_INVALID_ARGUMENT);
    CHECK(small[4] == 0 && small[5] == 'x');
    /* Refused by the leader, not by the parser. */
    OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-q no_such_queue", D));
    EXPECT(DRMAA_ERRNO_DENIED_BY_DRM, drmaa_run_job(text, sizeof text, jt, D));
    CHECK(strstr(diag, "no_such_queue") != NULL);
    OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-o x", D));
    OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":y", D));
    EXPECT(DRMAA_ERRNO_CONFLICTING_ATTRIBUTE_VALUES, drmaa_run_job(text, sizeof text, jt, D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_run_job(text, 5, jt, D));
    OK(drmaa_delete_job_template(jt, D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_delete_job_template(NULL, D));
}

/* Words, environment, files; the end and what was used. */
static void one_job(void)
{
    char id[DRMAA_JOBNAME_BUFFER], out[DRMAA_JOBNAME_BUFFER], text[4096];
    const char *env[] = {"GREETING=a 'b' $c", NULL};
    const char *script = "read line; echo \"$line|$GREETING|$1\"; echo err >&2; exit 7";
    const char *args[] = {"-c", script, "sh", "x;y *", NULL};
    drmaa_job_template_t *jt = template_of("/bin/sh", "-c", "true");
    drmaa_attr_values_t *rusage = NULL;
    int stat = -1, yes = -1;
    OK(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, args, D));
    OK(drmaa_set_vector_attribute(jt, DRMAA_V_ENV, env, D));
    OK(drmaa_set_attribute(jt, DRMAA_JOB_NAME, "one_job", D));
    OK(drmaa_set_attribute(jt, DRMAA_INPUT_PATH, ":$drmaa_wd_ph$/input", D));
    OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":$drmaa_wd_ph$/out%", D));
    OK(drmaa_set_attribute(jt, DRMAA_ERROR_PATH, ":err", D));
    OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "bsub -Jd 'a c call'", D));
    snprintf(text, sizeof text, "%s/input", work);
    FILE *f = fopen(text, "w");
    CHECK(f != NULL && fputs("hello\n", f) >= 0 && fclose(f) == 0);
    submit(jt, id, sizeof id);
    OK(drmaa_wait(id, out, sizeof out, &stat, PATIENCE, &rusage, D));
    CHECK(strcmp(id, out) == 0);
    OK(drmaa_wifexited(&yes, stat, D));
    CHECK(yes == 1);
    OK(drmaa_wexitstatus(&yes, stat, D));
    CHECK(yes == 7 && WIFEXITED(stat) && WEXITSTATUS(stat) == 7);
    OK(drmaa_wifsignaled(&yes, stat, D));
    CHECK(yes == 0);
    OK(drmaa_wifaborted(&yes, stat, D));
    CHECK(yes == 0);
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_wtermsig(text, sizeof text, stat, D));
    usage(rusage, "exit_status", text, sizeof text);
    CHECK(strcmp(text, "7") == 0);
    drmaa_release_attr_values(rusage);
    /* The output alone, without a report. */
    read_file("out%", text, sizeof text);
    CHECK(strcmp(text, "hello|a 'b' $c|x;y *\n") == 0);
    read_file("err", text, sizeof text);
    CHECK(strcmp(text, "err\n") == 0);
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(id, NULL, 0, NULL, 0, NULL, D));
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_job_ps(id, &yes, D));
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(ANY, NULL, 0, NULL, 0, NULL, D));
}

static void resource_usage(void)
{
    char id[64], text[256];
    drmaa_attr_values_t *rusage = NULL;
    drmaa_job_template_t *jt = template_of("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do "
                                           "i=$((i+1)); done");
    submit(jt, id, sizeof id);
    OK(drmaa_wait(id, NULL, 0, NULL, PATIENCE, &rusage, D));
    char line[DRMAA_ATTR_BUFFER];
    int found = 0;
    long start = 0, end = 0;
    while (drmaa_get_next_attr_value(rusage, line, sizeof line) == DRMAA_ERRNO_SUCCESS) {
        double cpu;
        long kb;
        found += sscanf(line, "cpu=%lf", &cpu) == 1 && cpu > 0;
        found += sscanf(line, "maxrss=%ld", &kb) == 1 && kb > 0;
        found += sscanf(line, "start_time=%ld", &start) == 1 && start > 0;
        found += sscanf(line, "end_time=%ld", &end) == 1 && end > 0;
        found += sscanf(line, "hosts=%255s", text) == 1;
    }
    CHECK(found == 5 && end >= start);
    drmaa_release_attr_values(rusage);
}

static void control(void)
{
    char id[64], text[DRMAA_SIGNAL_BUFFER];
    int stat = -1, yes = -1;
    drmaa_job_template_t *jt = template_of("/bin/sleep", "600", NULL);
    OK(drmaa_set_attribute(jt, DRMAA_JS_STATE, DRMAA_SUBMISSION_STATE_HOLD, D));
    submit(jt, id, sizeof id);
    CHECK(state(id) == DRMAA_PS_USER_ON_HOLD);
    EXPECT(DRMAA_ERRNO_EXIT_TIMEOUT, drmaa_wait(id, NULL, 0, NULL, 0, NULL, D));
    EXPECT(DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_SUSPEND, D));
    EXPECT(DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_HOLD, D));
    EXPECT(DRMAA_ERRNO_RESUME_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_RESUME, D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_control(id, 9, D));
    OK(drmaa_control(id, DRMAA_CONTROL_RELEASE, D));
    until_state(id, DRMAA_PS_RUNNING);
    EXPECT(DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_RELEASE, D));
    OK(drmaa_control(id, DRMAA_CONTROL_SUSPEND, D));
    until_state(id, DRMAA_PS_USER_SUSPENDED);
    OK(drmaa_control(id, DRMAA_CONTROL_RESUME, D));
    until_state(id, DRMAA_PS_RUNNING);
    EXPECT(DRMAA_ERRNO_EXIT_TIMEOUT, drmaa_wait(ANY, NULL, 0, NULL, 1, NULL, D));
    OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
    OK(drmaa_wait(ANY, NULL, 0, &stat, PATIENCE, NULL, D));
    OK(drmaa_wifsignaled(&yes, stat, D));
    CHECK(yes == 1 && WIFSIGNALED(stat));
    OK(drmaa_wtermsig(text, sizeof text, stat, D));
    CHECK(strncmp(text, "SIG", 3) == 0);
    OK(drmaa_wcoredump(&yes, stat, D));
    CHECK(yes == 0);
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_control("999999", DRMAA_CONTROL_TERMINATE, D));
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_job_ps("x", &yes, D));
}

static void aborted(void)
{
    char id[64];
    int stat = -1, yes = -1;
    drmaa_job_template_t *jt = template_of("/bin/sleep", "600", NULL);
    OK(drmaa_set_attribute(jt, DRMAA_JS_STATE, DRMAA_SUBMISSION_STATE_HOLD, D));
    submit(jt, id, sizeof id);
    OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
    OK(drmaa_wait(id, NULL, 0, &stat, PATIENCE, NULL, D));
    OK(drmaa_wifaborted(&yes, stat, D));
    CHECK(yes == 1);
    OK(drmaa_wifexited(&yes, stat, D));
    CHECK(yes == 0);
}

static void bulk(void)
{
    char id[64], text[256], first[64];
    drmaa_job_ids_t *ids = NULL;
    size_t size = 0;
    const char *all[] = {ALL, NULL};
    drmaa_job_template_t *jt = template_of("/bin/sh", "-c", "echo $LSB_JOBINDEX; exit $LSB_JOBINDEX");
    OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":bulk.$drmaa_incr_ph$", D));
    OK(drmaa_set_attribute(jt, DRMAA_JS_STATE, DRMAA_SUBMISSION_STATE_HOLD, D));
    EXPECT(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_run_bulk_jobs(&ids, jt, 0, 3, 1, D));
    OK(drmaa_run_bulk_jobs(&ids, jt, 2, 7, 2, D));
    OK(drmaa_delete_job_template(jt, D));
    OK(drmaa_get_num_job_ids(ids, &size));
    CHECK(size == 3);
    OK(drmaa_get_next_job_id(ids, first, sizeof first));
    CHECK(strstr(first, "[2]") != NULL);
    drmaa_release_job_ids(ids);
    CHECK(state(first) == DRMAA_PS_USER_ON_HOLD);
    EXPECT(DRMAA_ERRNO_EXIT_TIMEOUT, drmaa_synchronize(all, 0, 0, D));
    OK(drmaa_control(ALL, DRMAA_CONTROL_RELEASE, D));
    OK(drmaa_synchronize(all, PATIENCE, 0, D));
    CHECK(state(first) == DRMAA_PS_FAILED);
    int codes = 0, stat = 0, code = 0;
    for (int n = 0; n < 3; n++) {
        OK(drmaa_wait(ANY, id, sizeof id, &stat, 0, NULL, D));
        OK(drmaa_wexitstatus(&code, stat, D));
        snprintf(text, sizeof text, "[%d]", code);
        CHECK(strstr(id, text) != NULL);
        codes += code;
    }
    CHECK(codes == 2 + 4 + 6);
    read_file("bulk.4", text, sizeof text);
    CHECK(strcmp(text, "4\n") == 0);
    /* Ended while they waited, and disposed of. */
    jt = template_of("/bin/sleep", "600", NULL);
    OK(drmaa_set_attribute(jt, DRMAA_JS_STATE, DRMAA_SUBMISSION_STATE_HOLD, D));
    OK(drmaa_run_bulk_jobs(&ids, jt, 1, 3, 1, D));
    OK(drmaa_delete_job_template(jt, D));
    drmaa_release_job_ids(ids);
    OK(drmaa_control(ALL, DRMAA_CONTROL_TERMINATE, D));
    OK(drmaa_synchronize(all, PATIENCE, 1, D));
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(ANY, NULL, 0, NULL, 0, NULL, D));
}

#define THREADS 8
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int sum;

/* Takes the end of any job; each job's once, in whichever thread. */
static void *waiter(void *unused)
{
    char text[256] = "";
    int stat = 0, code = drmaa_wait(ANY, NULL, 0, &stat, PATIENCE, NULL, text, sizeof text);
    pthread_mutex_lock(&gate);
    sum += code == DRMAA_ERRNO_SUCCESS ? WEXITSTATUS(stat) : 100000;
    pthread_mutex_unlock(&gate);
    return unused;
}

static void threads(void)
{
    pthread_t all[THREADS];
    char id[64], script[64];
    const char *every[] = {ALL, NULL};
    for (int n = 0; n < THREADS; n++) {
        snprintf(script, sizeof script, "sleep 0.%d; exit %d", n, 1 << n);
        if (n == 7)
            snprintf(script, sizeof script, "exit 64");
        submit(template_of("/bin/sh", "-c", script), id, sizeof id);
    }
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_create(&all[n], NULL, waiter, NULL) == 0);
    OK(drmaa_synchronize(every, PATIENCE, 0, D));
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_join(all[n], NULL) == 0);
    CHECK(sum == 127 + 64);
}

static int ended_by_exit = -1;

static void *until_the_session_ends(void *unused)
{
    ended_by_exit = drmaa_wait(ANY, NULL, 0, NULL, DRMAA_TIMEOUT_WAIT_FOREVER, NULL, NULL, 0);
    return unused;
}

/* No leader answers: the call fails, and what was asked for is taken back. */
static void silence(void)
{
    char id[64];
    OK(drmaa_init(NULL, D));
    drmaa_job_template_t *jt = template_of("/bin/true", NULL, NULL);
    EXPECT(DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE, drmaa_run_job(id, sizeof id, jt, D));
    CHECK(strstr(diag, "the request was withdrawn") != NULL);
    OK(drmaa_delete_job_template(jt, D));
    OK(drmaa_exit(D));
}

/* As many jobs are pending as the cluster allows: the program may try again later. */
static void too_many(void)
{
    char id[64];
    OK(drmaa_init(NULL, D));
    drmaa_job_template_t *jt = template_of("/bin/true", NULL, NULL);
    EXPECT(DRMAA_ERRNO_TRY_LATER, drmaa_run_job(id, sizeof id, jt, D));
    CHECK(strstr(diag, "max_pend_jobs") != NULL);
    OK(drmaa_delete_job_template(jt, D));
    OK(drmaa_exit(D));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    snprintf(work, sizeof work, "%s", argv[1]);
    if (strcmp(argv[2], "silent") == 0) {
        silence();
        puts("all as expected");
        return 0;
    }
    if (strcmp(argv[2], "full") == 0) {
        too_many();
        puts("all as expected");
        return 0;
    }
    without_a_session();
    attributes();
    one_job();
    resource_usage();
    control();
    aborted();
    bulk();
    threads();
    /* A job of elsewhere: its state, and waiting for it. */
    int stat = -1;
    CHECK(state(argv[2]) == DRMAA_PS_DONE);
    OK(drmaa_wait(argv[2], NULL, 0, &stat, PATIENCE, NULL, D));
    CHECK(stat == 0);
    EXPECT(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(argv[2], NULL, 0, &stat, PATIENCE, NULL, D));
    /* The end of the session ends a wait, and no job. */
    char id[64];
    pthread_t thread;
    submit(template_of("/bin/sleep", "600", NULL), id, sizeof id);
    CHECK(pthread_create(&thread, NULL, until_the_session_ends, NULL) == 0);
    usleep(300000);
    OK(drmaa_exit(D));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(ended_by_exit == DRMAA_ERRNO_NO_ACTIVE_SESSION);
    OK(drmaa_init(getenv("CB_ENVDIR"), D));
    OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
    OK(drmaa_wait(id, NULL, 0, &stat, PATIENCE, NULL, D));
    OK(drmaa_exit(D));
    puts("all as expected");
    return 0;
}
