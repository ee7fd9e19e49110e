# Completion of Corral's commands in fish: commands, options, queues, hosts, users, jobs.
# Put it into ~/.config/fish/conf.d or /etc/fish/conf.d.
# `cb __complete` prints the candidates for a word; fish itself completes only file names.

function __corral_complete
    set -l word (commandline -ct)
    set -l lines (command cb __complete fish (commandline -opc) "$word" 2>/dev/null </dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path "$word"
        case dirs
            __fish_complete_directories "$word" ""
    end
    set -e lines[1]
    count $lines >/dev/null; and printf '%s\n' $lines
end

set -l names \
    cb csub ckill cstop cresume cchkpnt crestart crequeue cmig cmod cswitch ctop cbot crun cpost cread cpeek claunch \
    blaunch cwait ctasks ccron cgadd cgmod cgdel aip cjobs cdeps cevents chist cacct capps cjgroup cqueues chosts cload cinfo climits cslots \
    cusers cugroup cmgroup clogin ctoken cparams cview cid cadmin csadmin bsub bjobs bkill bstop bresume brequeue bmig bgadd bgmod bgdel bjgroup bmod bswitch \
    btop bbot bpost bread bpeek bhist bacct bapp bqueues bhosts blimits bslots busers bparams bjdepinfo bwait brun bchkpnt brestart bmgroup \
    bugroup lsid lsclusters lsload lshosts lsinfo badmin lsadmin
for name in $names
    complete -c $name -f -k -a '(__corral_complete)'
end
