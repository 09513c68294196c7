/** The keeper of one program: its output in a ring buffer, its input, its exit. A single event loop that never blocks elsewhere. */
export const keeper = String.raw`
sub keep {
  my ($p, $tell) = @_;
  my ($out_r, $out_w, $err_r, $err_w, $in_r, $in_w, $bad_r, $bad_w);
  pipe($out_r, $out_w) && pipe($err_r, $err_w) && pipe($in_r, $in_w) && pipe($bad_r, $bad_w)
    or return put_all($tell, 'X' . ($! + 0) . "\n");
  for my $std ([\*STDIN, '<'], [\*STDOUT, '>'], [\*STDERR, '>']) { open($$std[0], $$std[1], '/dev/null') }
  my $work = POSIX::getcwd();
  chdir $$p{dir};
  socket(my $listen, PF_UNIX, SOCK_STREAM, 0);
  bind($listen, sockaddr_un('s')) && listen($listen, 128) or return put_all($tell, 'X' . ($! + 0) . "\n");
  my $mark = "$$p{id}." . $$ . '.' . int(rand(1e9));
  pipe(my $chld_r, my $chld_w);
  $SIG{CHLD} = sub { syswrite($chld_w, 'x') };
  my $started = now_ms();
  my ($size) = $$p{stdin} =~ /^t(.+)/;
  if ($size) {
    ($out_r, $out_w) = terminal($size) or return put_all($tell, 'X' . ($! + 0) . "\n");
    ($in_r, $err_w, $err_r) = ($out_w, $out_w, undef);
    open($in_w, '>&', $out_r);
  }
  my $pid = fork;
  if (defined $pid && !$pid) {
    $SIG{$_} = 'DEFAULT' for qw(PIPE CHLD);
    POSIX::setsid();
    if ($size) { ioctl($in_r, 0x540E, 0) }
    chdir $work;
    if ($$p{cwd} ne '' && !chdir $$p{cwd}) { put_all($bad_w, 'C' . ($! + 0)); POSIX::_exit(127) }
    if ($$p{stdin} eq 'n') { open($in_r, '<', '/dev/null') }
    POSIX::dup2(fileno($in_r), 0);
    POSIX::dup2(fileno($out_w), 1);
    POSIX::dup2(fileno($err_w), 2);
    $ENV{SANDKASTEN_PROCESS} = $mark;
    exec { $$p{cmd}[0] } @{ $$p{cmd} };
    put_all($bad_w, 'X' . ($! + 0));
    POSIX::_exit(127);
  }
  my $errno = $! + 0;
  close $_ for $out_w, $err_w, $in_r, $bad_w;
  my $why = defined $pid ? readline($bad_r) : "X$errno";
  if (defined $why) {
    waitpid($pid, 0) if defined $pid;
    return put_all($tell, "$why\n");
  }
  write_whole('meta', join(' ', $here, time() . '000', map { b64($_) } @{ $$p{cmd} }));
  put_all($tell, "ok\n");
  close $tell;
  if ($$p{stdin} eq 'n') { close $in_w; $in_w = undef }
  loop({ %$p, pid => $pid, mark => $mark, listen => $listen, out => $out_r, err => $err_r, in => $in_w,
    chld => $chld_r, started => $started, deadline => $$p{timeout} ? $started + $$p{timeout} : 0,
    ring => [], first => 1, next => 1, bytes => 0, readers => {}, clients => [], feeds => [], fed => {} });
}

sub loop {
  my ($k) = @_;
  for my $end (grep { $_ } @$k{qw(out err in chld)}) { nonblocking($end) }
  $$k{readers}{ $$k{rid} } = [0, now_ms()] if $$k{rid} ne '-';
  feed($k, 'first', unb64($input), 1) if $$k{stdin} eq 'd';
  my $piece = $$k{capacity} / 8;
  $piece = $piece < 1024 ? 1024 : $piece > 65536 ? 65536 : int($piece);
  until ($$k{exit}) {
    my $now = now_ms();
    if ($$k{deadline} && $now >= $$k{deadline}) {
      $$k{late} = 1;
      $$k{deadline} = 0;
      signal_all($k, 'KILL');
    }
    serve($k, $now);
    my ($r, $w) = ('', '');
    my $room = room($k);
    for my $end (grep { $_ } $$k{listen}, $$k{chld}, ($room ? @$k{qw(out err)} : ())) { vec($r, fileno($end), 1) = 1 }
    for my $client (@{ $$k{clients} }) { vec($r, fileno($$client{fh}), 1) = 1 }
    vec($w, fileno($$k{in}), 1) = 1 if $$k{in} && @{ $$k{feeds} };
    my $wait = $$k{deadline} ? $$k{deadline} - $now : 5000;
    for my $client (@{ $$k{clients} }) {
      my $left = ($$client{until} || 0) - $now;
      $wait = $left if $$client{until} && $left < $wait;
    }
    $wait = 10 if $wait < 10;
    my $n = select($r, $w, undef, $wait / 1000);
    next if $n <= 0;
    if (vec($r, fileno($$k{chld}), 1)) { sysread($$k{chld}, my $x, 4096); reap($k) }
    last if $$k{exit};
    for my $type ('out', 'err') { take($k, $type, $piece) if $room && $$k{$type} && vec($r, fileno($$k{$type}), 1) }
    write_input($k) if $$k{in} && vec($w, fileno($$k{in}), 1);
    come_in($k) if vec($r, fileno($$k{listen}), 1);
    for my $client (@{ $$k{clients} }) { hear($k, $client) if vec($r, fileno($$client{fh}), 1) }
  }
  # Writes the exit before any reader gets it, so that later calls find it after the keeper has ended.
  write_whole('log', join('', map { event_line($_) } @{ $$k{ring} }));
  write_whole('exit', $$k{exit});
  close_feeds($k);
  serve($k, now_ms());
  unlink 's';
  close $$k{listen};
  close $$_{fh} for @{ $$k{clients} };
  # Processes that the program left behind may still write: drain the pipes, so that they neither block nor get SIGPIPE.
  for my $type ('out', 'err') {
    next unless $$k{$type};
    fcntl($$k{$type}, 4, 0);
    1 while sysread($$k{$type}, my $x, 65536);
  }
}

# Opens a pseudo-terminal and returns both ends.
sub terminal {
  my ($size) = @_;
  sysopen(my $ours, '/dev/ptmx', 2 | 256) or return;
  my ($open, $number) = (pack('i', 0), pack('i', 0));
  ioctl($ours, 0x40045431, $open) && ioctl($ours, 0x80045430, $number) or return;
  resize($ours, $size);
  sysopen(my $theirs, '/dev/pts/' . unpack('i', $number), 2 | 256) or return;
  return ($ours, $theirs);
}

sub resize {
  my ($end, $size) = @_;
  my ($cols, $rows) = split /x/, $size;
  my $window = pack('S4', $rows, $cols, 0, 0);
  ioctl($end, 0x5414, $window);
}

sub come_in {
  my ($k) = @_;
  accept(my $fh, $$k{listen}) or return;
  nonblocking($fh);
  push @{ $$k{clients} }, { fh => $fh, text => '' };
}

sub nonblocking { fcntl($_[0], 4, 2048) }

sub take {
  my ($k, $type, $piece) = @_;
  my $n = sysread($$k{$type}, my $data, $piece);
  if (!defined $n && ($!{EINTR} || $!{EAGAIN})) { return !$_[3] }
  # Linux reports the end of a terminal as an error, not as end-of-file.
  if (!$n) { $$k{$type} = undef; return 0 }
  add($k, [$$k{next}, substr($type, 0, 1), $data]);
  return 1;
}

sub add {
  my ($k, $event) = @_;
  push @{ $$k{ring} }, $event;
  $$k{next}++;
  $$k{bytes} += 64 + length $$event[2];
  drop($k);
}

# Drops the oldest events that no active reader still needs.
sub drop {
  my ($k) = @_;
  my $read = read_by_all($k);
  while ($$k{bytes} > $$k{capacity} && @{ $$k{ring} } > 1 && $$k{ring}[0][0] <= $read) {
    $$k{bytes} -= 64 + length $$k{ring}[0][2];
    shift @{ $$k{ring} };
    $$k{first}++;
  }
}

sub read_by_all {
  my ($k) = @_;
  my $read = 9e15;
  my $now = now_ms();
  for my $rid (keys %{ $$k{readers} }) {
    my ($after, $seen) = @{ $$k{readers}{$rid} };
    if ($now - $seen > 60000) { delete $$k{readers}{$rid} }
    elsif ($after < $read) { $read = $after }
  }
  return $read;
}

# Whether to read more output. If not, the program blocks. An active reader always gets room for two responses.
sub room {
  my ($k) = @_;
  drop($k);
  my $most = %{ $$k{readers} } && $$k{capacity} < 2097152 ? 2097152 : $$k{capacity};
  return $$k{bytes} <= $most || @{ $$k{ring} } <= 1;
}

sub event_line { my ($e) = @_; return $$e[1] eq 'x' ? "x $$e[0] $$e[2]\n" : "$$e[1] $$e[0] " . b64($$e[2]) . "\n" }

sub reap {
  my ($k) = @_;
  return unless waitpid($$k{pid}, POSIX::WNOHANG()) == $$k{pid};
  my $status = $?;
  # The program has ended, so all its output is in the pipes.
  for my $type ('out', 'err') { 1 while $$k{$type} && take($k, $type, 65536, 1) }
  $$k{exit} = join(' ', $status >> 8, $status & 127, $$k{late} ? 1 : 0, now_ms() - $$k{started});
  push @{ $$k{ring} }, [$$k{next}, 'x', $$k{exit}];
}

sub hear {
  my ($k, $client) = @_;
  my $n = sysread($$client{fh}, my $data, 65536);
  return if !defined $n && ($!{EAGAIN} || $!{EINTR});
  if (!$n) { $$client{gone} = 1; return }
  $$client{text} .= $data;
  return if $$client{request} || $$client{text} !~ s/^(.*?)\n//s;
  my @words = split / /, $1, -1;
  $$client{request} = \@words;
  my $now = now_ms();
  if ($words[0] eq 'read') {
    my ($what, $rid, $after, $max, $wait) = @words;
    $$k{readers}{$rid} = [$after, $now] if $rid ne '-';
    $$client{until} = $now + $wait;
  } elsif ($words[0] eq 'feed') {
    my ($what, $id, $file, $text, $eof, $wait) = @words;
    $$client{until} = $now + $wait;
    unless (exists $$k{fed}{$id}) {
      my $bytes = $file eq '-' ? unb64($text) : slurp(unb64($file));
      unlink unb64($file) if $file ne '-';
      feed($k, $id, $bytes, $eof);
    }
  }
}

sub serve {
  my ($k, $now) = @_;
  my @left;
  for my $client (@{ $$k{clients} }) {
    next if $$client{gone};
    if (!$$client{request}) { push @left, $client; next }
    my $text = reply($k, $client, $now);
    if (!defined $text) { push @left, $client; next }
    fcntl($$client{fh}, 4, 0);
    put_all($$client{fh}, "$text.\n");
    close $$client{fh};
  }
  $$k{clients} = \@left;
}

sub reply {
  my ($k, $client, $now) = @_;
  my ($what, @words) = @{ $$client{request} };
  my $over = $now >= ($$client{until} || 0);
  if ($what eq 'read') {
    my ($rid, $after, $max, $wait, $linger) = @words;
    my $text = events_after($$k{ring}, $$k{first}, $after, $max);
    return $text if $over || $$k{exit};
    return undef if $text eq '';
    return $text if !$linger || $$client{lingers};
    # Wait briefly for the exit of a short program: this saves the reader a request.
    $$client{lingers} = 1;
    $$client{until} = $now + $linger;
    return undef;
  }
  if ($what eq 'feed') {
    my $state = $$k{fed}{ $words[0] };
    return $state eq 'wait' && !$over ? undef : "$state\n";
  }
  if ($what eq 'size') { resize($$k{out}, $words[0]) if $$k{out}; return "ok\n" }
  if ($what eq 'bye') { delete $$k{readers}{ $words[0] }; return "ok\n" }
  if ($what eq 'kill') { return $$k{exit} ? "0\n" : signal_all($k, $words[0]) . "\n" }
  return $$k{exit} ? "x $$k{exit}\n" : "running\n";
}

sub events_after {
  my ($ring, $first, $after, $max) = @_;
  return "g $first\n" if $after + 1 < $first;
  my ($text, $size) = ('', 0);
  for my $at ($after + 1 - $first .. $#$ring) {
    last if $size >= $max;
    $text .= event_line($$ring[$at]);
    $size += length $$ring[$at][2];
  }
  return $text;
}

sub feed {
  my ($k, $id, $data, $eof) = @_;
  $$k{fed}{$id} = $$k{in} ? 'wait' : 'closed';
  push @{ $$k{feeds} }, { id => $id, data => $data, eof => $eof } if $$k{in};
}

sub write_input {
  my ($k) = @_;
  while (my $feed = $$k{feeds}[0]) {
    while (length $$feed{data}) {
      my $n = syswrite($$k{in}, $$feed{data}, 65536);
      if (!defined $n) { return if $!{EAGAIN} || $!{EINTR}; return close_feeds($k) }
      substr($$feed{data}, 0, $n) = '';
    }
    $$k{fed}{ $$feed{id} } = 'ok';
    shift @{ $$k{feeds} };
    if ($$feed{eof}) { return close_feeds($k) }
  }
}

sub close_feeds {
  my ($k) = @_;
  close $$k{in} if $$k{in};
  $$k{in} = undef;
  for my $feed (@{ $$k{feeds} }) { $$k{fed}{ $$feed{id} } = 'closed' }
  $$k{feeds} = [];
}

# All processes of the program: by its session, and by a mark in the environment that children inherit.
sub family {
  my ($k) = @_;
  my @found;
  opendir(my $proc, '/proc') or return;
  for my $pid (grep { /^\d+$/ } readdir $proc) {
    my $stat = slurp("/proc/$pid/stat");
    next unless defined $stat;
    $stat =~ s/^.*\)//s;
    my $session = (split ' ', $stat)[3];
    my $env = "\0" . (slurp("/proc/$pid/environ") || '');
    push @found, $pid if $session == $$k{pid} || index($env, "\0SANDKASTEN_PROCESS=$$k{mark}\0") >= 0;
  }
  return @found;
}

sub signal_all {
  my ($k, $signal) = @_;
  my %seen;
  # A process may have forked before it was killed, so look again.
  for (1 .. 100) {
    my @new = grep { !$seen{$_}++ } family($k);
    last unless @new;
    kill $signal, @new;
    last if $signal ne 'KILL';
  }
  return 1;
}
`
