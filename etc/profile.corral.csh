# Points a C shell, and programs that were written for LSF, to Corral. Source it from a login file;
# set PREFIX and CB_ENVDIR before if the programs or cb.conf are elsewhere. `cadmin lsf-conf` writes
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
