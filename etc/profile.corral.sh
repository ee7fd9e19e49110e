# Points a POSIX shell, and programs that were written for LSF, to Corral. Source it from a profile;
# set PREFIX and CB_ENVDIR before if the programs or cb.conf are elsewhere. `cadmin lsf-conf` writes
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
