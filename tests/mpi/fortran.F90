! Calls of a Fortran program, by the module MODULE, whose requests are of type REQUEST.
program fortran
  use MODULE
  implicit none
  integer, parameter :: n = 1000
  double precision :: mine(n), found(n)
  double precision, allocatable :: gathered(:)
  integer :: rank, ranks, one, total, i, ierr
  REQUEST :: request

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  allocate(gathered(n * ranks))
  mine = rank + 1

  call MPI_Allreduce(mine, found, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check('allreduce', all(found == ranks * (ranks + 1) / 2))

  found = mine
  call MPI_Allreduce(MPI_IN_PLACE, found, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
  call check('in place', all(found == ranks))

  call MPI_Allgather(mine, n, MPI_DOUBLE_PRECISION, gathered, n, MPI_DOUBLE_PRECISION, &
                     MPI_COMM_WORLD, ierr)
  do i = 1, ranks
    call check('allgather', all(gathered((i - 1) * n + 1:i * n) == i))
  end do

  one = 1
  call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call check('iallreduce', total == ranks)

  call MPI_Bcast(mine, n, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, ierr)
  call check('bcast', all(mine == ranks))

  if (rank == 0) print '(a)', 'passed fortran'
  call MPI_Finalize(ierr)

contains

  subroutine check(what, is_right)
    character(*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) then
      print '(a)', 'wrong: '//what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine check

end program fortran
