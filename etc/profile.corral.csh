# Sets the environment of a C shell for Corral and for programs that were written for LSF. Source it
# from a login file. If the programs or cb.conf are elsewhere, set PREFIX and CB_ENVDIR first. `cadmin lsf-conf` writes
# lsf.conf into LSF_ENVDIR.
if ( ! $?CB_ENVDIR ) setenv CB_ENVDIR /etc/corral
set _corral_prefix = /usr/local
if ( $?PREFIX ) set _corral_prefix = $PREFIX
setenv LSF_ENVDIR $CB_ENVDIR
setenv LSF_BINDIR $_corral_prefix/bin
setenv LSF_SERVERDIR $_corral_prefix/sbin
setenv LSF_LIBDIR $_corral_prefix/lib
unset _corral_prefix
if ( ":${PATH}:" !~ *:${LSF_BINDIR}:* ) setenv PATH ${LSF_BINDIR}:${PATH}
