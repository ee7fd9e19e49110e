"""What the scripts of the MPI libraries share: a program of known result, and the checks."""
from bed import HOSTS, check, run, until

# The integral of 4/(1+x*x) from 0 to 1, a sum over all ranks, and a message round the ring.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, length, token = 0, steps = 1000000;
    char host[MPI_MAX_PROCESSOR_NAME];
    double sum = 0.0, pi = 0.0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    for (int i = rank; i < steps; i += size) {
        double x = (i + 0.5) / steps;
        sum += 4.0 / (1.0 + x * x);
    }
    sum /= steps;
    MPI_Allreduce(&sum, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (size > 1) {
        if (rank == 0)
            MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        token += rank;
        if (rank != 0)
            MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("pi %.10f ring %d size %d\n", pi, token, size);
    char *job = getenv("LSB_JOBID");
    printf("rank %d on %s job %s\n", rank, host, job ? job : "none");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1)
        sleep(atoi(argv[1]));
    MPI_Finalize();
    return argc > 2 && rank == size - 1 ? atoi(argv[2]) : 0;
}
"""


def build(bed, compiler):
    """Compiles the program; its path."""
    bed.write("ring.c", PROGRAM, 0o644)
    path = f"{bed.work}/ring"
    run([compiler, "-O1", "-o", path, f"{bed.work}/ring.c"])
    return path


def known_result(text, size, job):
    """The numbers, and a rank on each of the hosts."""
    check(f"pi 3.1415926536 ring {size * (size - 1) // 2} size {size}" in text, text)
    ranks = [line.split() for line in text.splitlines() if line.startswith("rank ")]
    check(sorted(int(words[1]) for words in ranks) == list(range(size)), text)
    for host in HOSTS:
        here = [words for words in ranks if words[3] == host]
        check(len(here) == size // len(HOSTS), f"ranks on {host}: {text}")
    check(all(words[5] == str(job) for words in ranks), f"the job of the ranks: {text}")


def killed_without_rest(bed, job, program, size):
    """Kills the job while its ranks sleep; none is left, on no host."""
    where = until("all ranks", lambda: len(bed.ranks(program)) == size and bed.ranks(program))
    check({host for _, host, _ in where} == set(HOSTS), f"ranks are at {where}")
    bed.command(bed.hosts[0], "ckill", str(job))
    bed.wait(job, ("EXIT",))
    until("no process of the job", lambda: not bed.ranks(), 20)
