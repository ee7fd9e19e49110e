# Sets the environment of a POSIX shell for Corral and for programs that were written for LSF. Source it
# from a profile. If the programs or cb.conf are elsewhere, set PREFIX and CB_ENVDIR first. `cadmin lsf-conf` writes
# lsf.conf into LSF_ENVDIR.
: "${CB_ENVDIR:=/etc/corral}"
LSF_ENVDIR=$CB_ENVDIR
LSF_BINDIR=${PREFIX:-/usr/local}/bin
LSF_SERVERDIR=${PREFIX:-/usr/local}/sbin
LSF_LIBDIR=${PREFIX:-/usr/local}/lib
export CB_ENVDIR LSF_ENVDIR LSF_BINDIR LSF_SERVERDIR LSF_LIBDIR
case ":$PATH:" in
    *":$LSF_BINDIR:"*) ;;
    *) PATH=$LSF_BINDIR:$PATH; export PATH ;;
esac
