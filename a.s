       
       /tmp/tmpgjv944ki/liblstm.so:     file format elf64-x86-64
       
       
       Disassembly of section .text:
       
       0000000000001000 <lstm_workspace_bytes-0x28f0>:
           1000:	mov    %r9,%rax
           1003:	shl    $0xb,%rax
           1007:	mov    $0x1,%eax
           100c:	sete   %sil
           1010:	test   %rcx,%rcx
           1013:	setne  %dil
           1017:	or     %sil,%dil
           101a:	je     106d <lstm_workspace_bytes-0x2883>
           101c:	mov    (%rdx),%rsi
           101f:	mov    0x8(%rdx),%rax
           1023:	mov    %r9,%rdx
           1026:	test   %rsi,%rsi
           1029:	cmove  %rcx,%rsi
           102d:	shl    $0xa,%rdx
           1031:	add    %rcx,%rdx
           1034:	test   %rax,%rax
           1037:	cmovne %rax,%rdx
           103b:	shl    $0x8,%r9
           103f:	xor    %eax,%eax
           1041:	sar    $0x4,%r9
           1045:	test   %r9,%r9
           1048:	jle    106d <lstm_workspace_bytes-0x2883>
           104a:	vxorps %xmm0,%xmm0,%xmm0
           104e:	xor    %ecx,%ecx
           1050:	mov    %rcx,%rdi
           1053:	shl    $0x6,%rdi
           1057:	inc    %rcx
           105a:	vmovups %zmm0,(%rsi,%rdi,1)
           1061:	vmovups %zmm0,(%rdx,%rdi,1)
           1068:	cmp    %r9,%rcx
           106b:	jl     1050 <lstm_workspace_bytes-0x28a0>
           106d:	vzeroupper
           1070:	ret
           1071:	data16 data16 data16 data16 data16 cs nopw 0x0(%rax,%rax,1)
           1080:	push   %rbp
           1081:	mov    %rsp,%rbp
           1084:	push   %r15
           1086:	push   %r14
           1088:	push   %r13
           108a:	push   %r12
           108c:	push   %rbx
           108d:	and    $0xffffffffffffffc0,%rsp
           1091:	sub    $0x1940,%rsp
           1098:	mov    $0x1,%eax
           109d:	mov    %r9,%r14
           10a0:	mov    %r8,0x78(%rsp)
           10a5:	test   %rcx,%rcx
           10a8:	jne    10be <lstm_workspace_bytes-0x2832>
           10aa:	imul   $0x1c00,%r14,%r8
           10b1:	cmp    $0xfffffffffffe8000,%r8
           10b8:	jne    374b <lstm_workspace_bytes-0x1a5>
           10be:	mov    (%rsi),%r8
           10c1:	mov    %r8,0xc8(%rsp)
           10c9:	test   %r8,%r8
           10cc:	je     374b <lstm_workspace_bytes-0x1a5>
           10d2:	mov    0x8(%rsi),%r15
           10d6:	test   %r15,%r15
           10d9:	je     374b <lstm_workspace_bytes-0x1a5>
           10df:	mov    0x10(%rsi),%rsi
           10e3:	mov    %rsi,0x40(%rsp)
           10e8:	test   %rsi,%rsi
           10eb:	je     374b <lstm_workspace_bytes-0x1a5>
           10f1:	mov    (%rdx),%rax
           10f4:	mov    0x8(%rdx),%r8
           10f8:	mov    0x10(%rdx),%r11
           10fc:	lea    (%r14,%r14,2),%rsi
           1100:	mov    %r14,%r12
           1103:	mov    0x18(%rdx),%r10
           1107:	mov    %rsi,%r9
           110a:	test   %rax,%rax
           110d:	mov    %rax,0xd8(%rsp)
           1115:	cmove  %rcx,%rax
           1119:	shl    $0xb,%r12
           111d:	add    %rcx,%r12
           1120:	test   %r8,%r8
           1123:	mov    %rax,0xd0(%rsp)
           112b:	cmove  %r12,%r8
           112f:	shl    $0xa,%r9
           1133:	add    %rcx,%r9
           1136:	test   %r11,%r11
           1139:	cmovne %r11,%r9
           113d:	mov    %r9,0xb0(%rsp)
           1145:	mov    %r14,%r9
           1148:	shl    $0xc,%r9
           114c:	add    %rcx,%r9
           114f:	test   %r10,%r10
           1152:	cmovne %r10,%r9
           1156:	mov    %r9,0xa8(%rsp)
           115e:	mov    0x20(%rdx),%r9
           1162:	lea    (%r14,%r14,4),%rdx
           1166:	shl    $0xa,%rdx
           116a:	add    %rcx,%rdx
           116d:	test   %r9,%r9
           1170:	cmovne %r9,%rdx
           1174:	cmp    $0x2,%r14
           1178:	mov    $0x1,%r9d
           117e:	cmovge %r14,%r9
           1182:	mov    %rdx,0xa0(%rsp)
           118a:	cmp    $0x18,%r9
           118e:	ja     119e <lstm_workspace_bytes-0x2752>
           1190:	mov    $0x18,%eax
           1195:	xor    %edx,%edx
           1197:	div    %r9d
           119a:	mov    %eax,%edx
           119c:	jmp    11a0 <lstm_workspace_bytes-0x2750>
           119e:	xor    %edx,%edx
           11a0:	mov    0x78(%rsp),%rax
           11a5:	cmp    $0x1,%rdx
           11a9:	adc    $0x0,%rdx
           11ad:	mov    %rdx,%r9
           11b0:	mov    %r9,0x70(%rsp)
           11b5:	lea    -0x1(%rdx,%rax,1),%rax
           11ba:	mov    %rax,%rdx
           11bd:	shr    $0x20,%rdx
           11c1:	je     11da <lstm_workspace_bytes-0x2716>
           11c3:	cqto
           11c5:	idiv   %r9
           11c8:	mov    %r8,0xb8(%rsp)
           11d0:	test   %rax,%rax
           11d3:	jg     11f0 <lstm_workspace_bytes-0x2700>
           11d5:	jmp    36d4 <lstm_workspace_bytes-0x21c>
           11da:	xor    %edx,%edx
           11dc:	div    %r9d
           11df:	mov    %r8,0xb8(%rsp)
           11e7:	test   %rax,%rax
           11ea:	jle    36d4 <lstm_workspace_bytes-0x21c>
           11f0:	vbroadcastss 0x203e86(%rip),%zmm28        # 205080 <lstm_supported+0x2014e0>
           11fa:	vbroadcastss 0x203e80(%rip),%zmm29        # 205084 <lstm_supported+0x2014e4>
           1204:	vbroadcastss 0x203e7a(%rip),%zmm30        # 205088 <lstm_supported+0x2014e8>
           120e:	vbroadcastss 0x203e74(%rip),%zmm3        # 20508c <lstm_supported+0x2014ec>
           1218:	vbroadcastss 0x203e6e(%rip),%zmm31        # 205090 <lstm_supported+0x2014f0>
           1222:	vbroadcastss 0x203e68(%rip),%zmm27        # 205094 <lstm_supported+0x2014f4>
           122c:	vbroadcastss 0x203e62(%rip),%zmm22        # 205098 <lstm_supported+0x2014f8>
           1236:	vbroadcastss 0x203e5c(%rip),%zmm7        # 20509c <lstm_supported+0x2014fc>
           1240:	vbroadcastss 0x203e56(%rip),%zmm23        # 2050a0 <lstm_supported+0x201500>
           124a:	vbroadcastss 0x203e50(%rip),%zmm24        # 2050a4 <lstm_supported+0x201504>
           1254:	vbroadcastss 0x203e4a(%rip),%zmm25        # 2050a8 <lstm_supported+0x201508>
           125e:	vbroadcastss 0x203e44(%rip),%zmm26        # 2050ac <lstm_supported+0x20150c>
           1268:	vbroadcastss 0x203e3e(%rip),%zmm21        # 2050b0 <lstm_supported+0x201510>
           1272:	vbroadcastss 0x203e3c(%rip),%zmm17        # 2050b8 <lstm_supported+0x201518>
           127c:	vbroadcastss 0x203e2e(%rip),%zmm18        # 2050b4 <lstm_supported+0x201514>
           1286:	vbroadcastss 0x203e2c(%rip),%zmm19        # 2050bc <lstm_supported+0x20151c>
           1290:	vbroadcastss 0x203e26(%rip),%zmm16        # 2050c0 <lstm_supported+0x201520>
           129a:	shl    $0xb,%rsi
           129e:	xor    %r13d,%r13d
           12a1:	mov    %r14,0x98(%rsp)
           12a9:	mov    %rdi,0x90(%rsp)
           12b1:	mov    %r12,0x88(%rsp)
           12b9:	mov    %rax,0xc0(%rsp)
           12c1:	lea    0x18000(%rcx,%rsi,1),%rbx
           12c9:	lea    0x1000(%rdi),%rcx
           12d0:	mov    %rcx,0x28(%rsp)
           12d5:	lea    0x101040(%rdi),%rcx
           12dc:	mov    %rcx,0x30(%rsp)
           12e1:	mov    0x70(%rsp),%rcx
           12e6:	mov    %rbx,0x60(%rsp)
           12eb:	jmp    1319 <lstm_workspace_bytes-0x25d7>
           12ed:	nopl   (%rax)
           12f0:	mov    0x80(%rsp),%r13
           12f8:	mov    %r11,%r15
           12fb:	mov    %rbx,0x40(%rsp)
           1300:	mov    0xc0(%rsp),%rax
           1308:	mov    0x70(%rsp),%rcx
           130d:	inc    %r13
           1310:	cmp    %rax,%r13
           1313:	jge    36d4 <lstm_workspace_bytes-0x21c>
           1319:	mov    0x78(%rsp),%rdx
           131e:	mov    %r13,%rax
           1321:	imul   %rcx,%rax
           1325:	mov    %r14,%r8
           1328:	mov    %r14,%r9
           132b:	mov    %r13,0x80(%rsp)
           1333:	mov    %rax,0xf0(%rsp)
           133b:	sub    %rax,%rdx
           133e:	cmp    %rcx,%rdx
           1341:	mov    %rdx,0x58(%rsp)
           1346:	cmovl  %rdx,%rcx
           134a:	imul   %rax,%r8
           134e:	imul   %rcx,%r9
           1352:	mov    %rcx,0xe8(%rsp)
           135a:	mov    %r8,0xe0(%rsp)
           1362:	shl    $0xa,%r8
           1366:	add    0xc8(%rsp),%r8
           136e:	cmp    $0x1,%r9
           1372:	jne    2a60 <lstm_workspace_bytes-0xe90>
           1378:	xor    %eax,%eax
           137a:	nopw   0x0(%rax,%rax,1)
           1380:	mov    $0x7,%edx
           1385:	mov    0x28(%rsp),%r9
           138a:	vxorps %xmm11,%xmm11,%xmm11
           138f:	vxorps %xmm14,%xmm14,%xmm14
           1394:	vxorps %xmm13,%xmm13,%xmm13
           1399:	vxorps %xmm12,%xmm12,%xmm12
           139e:	vxorps %xmm10,%xmm10,%xmm10
           13a3:	vxorps %xmm9,%xmm9,%xmm9
           13a8:	vxorps %xmm1,%xmm1,%xmm1
           13ac:	vxorps %xmm0,%xmm0,%xmm0
           13b0:	sub    %rax,%rdx
           13b3:	test   $0x1,%r13b
           13b7:	cmove  %rax,%rdx
           13bb:	lea    0x1(%rdx,%rdx,1),%rcx
           13c0:	mov    %rdx,%rsi
           13c3:	shl    $0x11,%rsi
           13c7:	mov    %rcx,%r11
           13ca:	shl    $0x10,%r11
           13ce:	add    %r9,%rsi
           13d1:	add    %r9,%r11
           13d4:	xor    %r9d,%r9d
           13d7:	nopw   0x0(%rax,%rax,1)
           13e0:	vbroadcastss (%r8,%r9,4),%zmm15
           13e7:	mov    %r9,%r10
           13ea:	shl    $0x8,%r10
           13ee:	inc    %r9
           13f1:	vfmadd231ps (%rsi,%r10,1),%zmm15,%zmm11
           13f8:	vfmadd231ps 0x40(%rsi,%r10,1),%zmm15,%zmm14
           1400:	vfmadd231ps 0x80(%rsi,%r10,1),%zmm15,%zmm13
           1408:	vfmadd231ps 0xc0(%rsi,%r10,1),%zmm15,%zmm12
           1410:	vfmadd231ps (%r11,%r10,1),%zmm15,%zmm10
           1417:	vfmadd231ps 0x40(%r11,%r10,1),%zmm15,%zmm9
           141f:	vfmadd231ps 0x80(%r11,%r10,1),%zmm15,%zmm1
           1427:	vfmadd231ps 0xc0(%r11,%r10,1),%zmm15,%zmm0
           142f:	cmp    $0x100,%r9
           1436:	jl     13e0 <lstm_workspace_bytes-0x2510>
           1438:	shl    $0x9,%rdx
           143c:	shl    $0x8,%rcx
           1440:	inc    %rax
           1443:	vaddps (%rdi,%rdx,1),%zmm11,%zmm11
           144a:	vmovups %zmm11,(%r12,%rdx,1)
           1451:	vaddps 0x40(%rdi,%rdx,1),%zmm14,%zmm11
           1459:	vmovups %zmm11,0x40(%r12,%rdx,1)
           1461:	vaddps 0x80(%rdi,%rdx,1),%zmm13,%zmm11
           1469:	vmovups %zmm11,0x80(%r12,%rdx,1)
           1471:	vaddps 0xc0(%rdi,%rdx,1),%zmm12,%zmm11
           1479:	vmovups %zmm11,0xc0(%r12,%rdx,1)
           1481:	vaddps (%rdi,%rcx,1),%zmm10,%zmm10
           1488:	vmovups %zmm10,(%r12,%rcx,1)
           148f:	vaddps 0x40(%rdi,%rcx,1),%zmm9,%zmm9
           1497:	vmovups %zmm9,0x40(%r12,%rcx,1)
           149f:	vaddps 0x80(%rdi,%rcx,1),%zmm1,%zmm1
           14a7:	vmovups %zmm1,0x80(%r12,%rcx,1)
           14af:	vaddps 0xc0(%rdi,%rcx,1),%zmm0,%zmm0
           14b7:	vmovups %zmm0,0xc0(%r12,%rcx,1)
           14bf:	cmp    $0x8,%rax
           14c3:	jl     1380 <lstm_workspace_bytes-0x2570>
           14c9:	cmpq   $0x0,0x58(%rsp)
           14cf:	jle    1300 <lstm_workspace_bytes-0x25f0>
           14d5:	xor    %ecx,%ecx
           14d7:	jmp    1501 <lstm_workspace_bytes-0x23ef>
           14d9:	nopl   0x0(%rax)
           14e0:	mov    0x88(%rsp),%r12
           14e8:	inc    %rcx
           14eb:	mov    %r11,%r15
           14ee:	mov    %rbx,0x40(%rsp)
           14f3:	cmp    0xe8(%rsp),%rcx
           14fb:	jge    12f0 <lstm_workspace_bytes-0x2600>
           1501:	mov    0xf0(%rsp),%rax
           1509:	mov    %rcx,0x50(%rsp)
           150e:	mov    %r12,%rdx
           1511:	mov    %r14,%r9
           1514:	add    %rcx,%rax
           1517:	mov    0xe0(%rsp),%rcx
           151f:	mov    %eax,%r11d
           1522:	and    $0x1,%r11d
           1526:	cmpq   $0x0,0xd8(%rsp)
           152f:	cmovne %rax,%r11
           1533:	shl    $0xc,%rcx
           1537:	imul   %r14,%rax
           153b:	sub    %rcx,%rdx
           153e:	mov    0x50(%rsp),%rcx
           1543:	imul   %r14,%r11
           1547:	shl    $0xc,%rax
           154b:	shl    $0xa,%r11
           154f:	add    0xd0(%rsp),%r11
           1557:	lea    0x400(%rax,%rdx,1),%r13
           155f:	lea    0x800(%rax,%rdx,1),%r8
           1567:	lea    0xc00(%rax,%rdx,1),%rsi
           156f:	imul   %rcx,%r9
           1573:	shl    $0xc,%r9
           1577:	mov    %r11,0x48(%rsp)
           157c:	add    %r12,%r9
           157f:	cmp    $0x1,%r14
           1583:	jne    1b40 <lstm_workspace_bytes-0x1db0>
           1589:	xor    %eax,%eax
           158b:	nopl   0x0(%rax,%rax,1)
           1590:	mov    $0x7,%edx
           1595:	mov    0x30(%rsp),%r11
           159a:	vxorps %xmm10,%xmm10,%xmm10
           159f:	vxorps %xmm9,%xmm9,%xmm9
           15a4:	vxorps %xmm1,%xmm1,%xmm1
           15a8:	vxorps %xmm0,%xmm0,%xmm0
           15ac:	vxorps %xmm20,%xmm20,%xmm20
           15b2:	vxorps %xmm19,%xmm19,%xmm19
           15b8:	vxorps %xmm18,%xmm18,%xmm18
           15be:	vxorps %xmm17,%xmm17,%xmm17
           15c4:	sub    %rax,%rdx
           15c7:	test   $0x1,%cl
           15ca:	cmove  %rax,%rdx
           15ce:	lea    0x1(%rdx,%rdx,1),%rcx
           15d3:	mov    %rdx,%r12
           15d6:	shl    $0x11,%r12
           15da:	mov    %rcx,%r10
           15dd:	shl    $0x10,%r10
           15e1:	add    %r11,%r12
           15e4:	add    %r11,%r10
           15e7:	xor    %r11d,%r11d
           15ea:	nopw   0x0(%rax,%rax,1)
           15f0:	vbroadcastss (%r15,%r11,4),%zmm2
           15f7:	mov    %r11,%rbx
           15fa:	shl    $0x8,%rbx
           15fe:	inc    %r11
           1601:	vfmadd231ps (%r12,%rbx,1),%zmm2,%zmm10
           1608:	vfmadd231ps 0x40(%r12,%rbx,1),%zmm2,%zmm9
           1610:	vfmadd231ps 0x80(%r12,%rbx,1),%zmm2,%zmm1
           1618:	vfmadd231ps 0xc0(%r12,%rbx,1),%zmm2,%zmm0
           1620:	vfmadd231ps (%r10,%rbx,1),%zmm2,%zmm20
           1627:	vfmadd231ps 0x40(%r10,%rbx,1),%zmm2,%zmm19
           162f:	vfmadd231ps 0x80(%r10,%rbx,1),%zmm2,%zmm18
           1637:	vfmadd231ps 0xc0(%r10,%rbx,1),%zmm2,%zmm17
           163f:	cmp    $0x100,%r11
           1646:	jl     15f0 <lstm_workspace_bytes-0x2300>
           1648:	shl    $0x7,%rdx
           164c:	vmovaps %zmm30,%zmm4
           1652:	vmovaps %zmm7,%zmm6
           1658:	vmovaps %zmm7,%zmm8
           165e:	vbroadcastss 0x203a54(%rip),%zmm11        # 2050bc <lstm_supported+0x20151c>
           1668:	mov    0x40(%rsp),%r10
           166d:	mov    0x60(%rsp),%rbx
           1672:	mov    0x48(%rsp),%r11
           1677:	shl    $0x6,%rcx
           167b:	inc    %rax
           167e:	vaddps 0x0(%r13,%rdx,1),%zmm10,%zmm2
           1686:	vaddps (%r8,%rdx,1),%zmm1,%zmm1
           168d:	vbroadcastss 0x203a1d(%rip),%zmm10        # 2050b4 <lstm_supported+0x201514>
           1697:	vaddps (%rsi,%rdx,1),%zmm0,%zmm0
           169e:	vminps %zmm2,%zmm28,%zmm2
           16a4:	vminps %zmm1,%zmm24,%zmm1
           16aa:	vminps %zmm0,%zmm28,%zmm0
           16b0:	vmaxps %zmm2,%zmm29,%zmm2
           16b6:	vmaxps %zmm1,%zmm25,%zmm1
           16bc:	vmaxps %zmm0,%zmm29,%zmm0
           16c2:	vfmsub213ps %zmm3,%zmm2,%zmm4
           16c8:	vaddps %zmm3,%zmm4,%zmm5
           16ce:	vpslld $0x17,%zmm4,%zmm4
           16d5:	vfmadd231ps %zmm31,%zmm5,%zmm2
           16db:	vfmadd231ps %zmm5,%zmm27,%zmm2
           16e1:	vmulps %zmm2,%zmm2,%zmm5
           16e7:	vfmadd213ps %zmm22,%zmm5,%zmm6
           16ed:	vfmadd213ps %zmm23,%zmm5,%zmm6
           16f3:	vaddps %zmm2,%zmm6,%zmm5
           16f9:	vsubps %zmm2,%zmm6,%zmm2
           16ff:	vfmadd213ps %zmm5,%zmm2,%zmm4
           1705:	vdivps %zmm4,%zmm5,%zmm2
           170b:	vaddps (%r9,%rdx,1),%zmm9,%zmm5
           1712:	vbroadcastss 0x20399c(%rip),%zmm9        # 2050b8 <lstm_supported+0x201518>
           171c:	vminps %zmm5,%zmm28,%zmm4
           1722:	vmovaps %zmm30,%zmm5
           1728:	vmaxps %zmm4,%zmm29,%zmm4
           172e:	vfmsub213ps %zmm3,%zmm4,%zmm5
           1734:	vaddps %zmm3,%zmm5,%zmm6
           173a:	vpslld $0x17,%zmm5,%zmm5
           1741:	vfmadd231ps %zmm31,%zmm6,%zmm4
           1747:	vfmadd231ps %zmm6,%zmm27,%zmm4
           174d:	vmulps %zmm4,%zmm4,%zmm6
           1753:	vfmadd213ps %zmm22,%zmm6,%zmm8
           1759:	vfmadd213ps %zmm23,%zmm6,%zmm8
           175f:	vaddps %zmm4,%zmm8,%zmm6
           1765:	vsubps %zmm4,%zmm8,%zmm4
           176b:	vmovaps %zmm26,%zmm8
           1771:	vfmsub213ps %zmm3,%zmm1,%zmm8
           1777:	vfmadd213ps %zmm6,%zmm4,%zmm5
           177d:	vdivps %zmm5,%zmm6,%zmm4
           1783:	vaddps %zmm3,%zmm8,%zmm5
           1789:	vpslld $0x17,%zmm8,%zmm6
           1790:	vmovaps %zmm10,%zmm8
           1796:	vfmadd213ps %zmm1,%zmm21,%zmm5
           179c:	vmulps %zmm5,%zmm5,%zmm1
           17a2:	vfmadd213ps %zmm9,%zmm1,%zmm8
           17a8:	vfmadd213ps %zmm11,%zmm1,%zmm8
           17ae:	vfmadd213ps %zmm16,%zmm1,%zmm8
           17b4:	vmulps %zmm8,%zmm5,%zmm1
           17ba:	vaddps %zmm16,%zmm6,%zmm5
           17c0:	vsubps %zmm6,%zmm16,%zmm6
           17c6:	vmovaps %zmm1,%zmm8
           17cc:	vfmsub213ps %zmm6,%zmm5,%zmm8
           17d2:	vfnmadd213ps %zmm5,%zmm6,%zmm1
           17d8:	vmovaps %zmm30,%zmm6
           17de:	vfmsub213ps %zmm3,%zmm0,%zmm6
           17e4:	vmovaps %zmm7,%zmm5
           17ea:	vdivps %zmm1,%zmm8,%zmm1
           17f0:	vmulps %zmm1,%zmm4,%zmm1
           17f6:	vaddps %zmm3,%zmm6,%zmm4
           17fc:	vfmadd231ps (%r10,%rdx,1),%zmm2,%zmm1
           1803:	vpslld $0x17,%zmm6,%zmm2
           180a:	vmovaps %zmm10,%zmm6
           1810:	vfmadd231ps %zmm31,%zmm4,%zmm0
           1816:	vfmadd231ps %zmm4,%zmm27,%zmm0
           181c:	vmulps %zmm0,%zmm0,%zmm4
           1822:	vmovups %zmm1,(%rbx,%rdx,1)
           1829:	vfmadd213ps %zmm22,%zmm4,%zmm5
           182f:	vfmadd213ps %zmm23,%zmm4,%zmm5
           1835:	vaddps %zmm0,%zmm5,%zmm4
           183b:	vsubps %zmm0,%zmm5,%zmm0
           1841:	vfmadd213ps %zmm4,%zmm0,%zmm2
           1847:	vdivps %zmm2,%zmm4,%zmm0
           184d:	vminps %zmm1,%zmm24,%zmm4
           1853:	vmovaps %zmm30,%zmm1
           1859:	vmaxps %zmm4,%zmm25,%zmm2
           185f:	vmovaps %zmm26,%zmm4
           1865:	vfmsub213ps %zmm3,%zmm2,%zmm4
           186b:	vpslld $0x17,%zmm4,%zmm5
           1872:	vaddps %zmm3,%zmm4,%zmm4
           1878:	vfmadd213ps %zmm2,%zmm21,%zmm4
           187e:	vmulps %zmm4,%zmm4,%zmm2
           1884:	vfmadd213ps %zmm9,%zmm2,%zmm6
           188a:	vfmadd213ps %zmm11,%zmm2,%zmm6
           1890:	vfmadd213ps %zmm16,%zmm2,%zmm6
           1896:	vmulps %zmm6,%zmm4,%zmm2
           189c:	vaddps %zmm16,%zmm5,%zmm4
           18a2:	vsubps %zmm5,%zmm16,%zmm5
           18a8:	vmovaps %zmm2,%zmm6
           18ae:	vfmsub213ps %zmm5,%zmm4,%zmm6
           18b4:	vfnmadd213ps %zmm4,%zmm5,%zmm2
           18ba:	vmovaps %zmm7,%zmm4
           18c0:	vmovaps %zmm7,%zmm5
           18c6:	vdivps %zmm2,%zmm6,%zmm2
           18cc:	vmovaps %zmm10,%zmm6
           18d2:	vmulps %zmm2,%zmm0,%zmm0
           18d8:	vmovups %zmm0,(%r11,%rdx,1)
           18df:	vaddps 0x0(%r13,%rcx,1),%zmm20,%zmm0
           18e7:	vminps %zmm0,%zmm28,%zmm0
           18ed:	vmaxps %zmm0,%zmm29,%zmm0
           18f3:	vfmsub213ps %zmm3,%zmm0,%zmm1
           18f9:	vaddps %zmm3,%zmm1,%zmm2
           18ff:	vpslld $0x17,%zmm1,%zmm1
           1906:	vfmadd231ps %zmm31,%zmm2,%zmm0
           190c:	vfmadd231ps %zmm2,%zmm27,%zmm0
           1912:	vmulps %zmm0,%zmm0,%zmm2
           1918:	vfmadd213ps %zmm22,%zmm2,%zmm4
           191e:	vfmadd213ps %zmm23,%zmm2,%zmm4
           1924:	vaddps %zmm0,%zmm4,%zmm2
           192a:	vsubps %zmm0,%zmm4,%zmm0
           1930:	vfmadd213ps %zmm2,%zmm0,%zmm1
           1936:	vdivps %zmm1,%zmm2,%zmm0
           193c:	vaddps (%r9,%rcx,1),%zmm19,%zmm2
           1943:	vmovaps %zmm11,%zmm19
           1949:	vminps %zmm2,%zmm28,%zmm1
           194f:	vmovaps %zmm30,%zmm2
           1955:	vmaxps %zmm1,%zmm29,%zmm1
           195b:	vfmsub213ps %zmm3,%zmm1,%zmm2
           1961:	vaddps %zmm3,%zmm2,%zmm4
           1967:	vpslld $0x17,%zmm2,%zmm2
           196e:	vfmadd231ps %zmm31,%zmm4,%zmm1
           1974:	vfmadd231ps %zmm4,%zmm27,%zmm1
           197a:	vmulps %zmm1,%zmm1,%zmm4
           1980:	vfmadd213ps %zmm22,%zmm4,%zmm5
           1986:	vfmadd213ps %zmm23,%zmm4,%zmm5
           198c:	vaddps %zmm1,%zmm5,%zmm4
           1992:	vsubps %zmm1,%zmm5,%zmm1
           1998:	vaddps (%r8,%rcx,1),%zmm18,%zmm5
           199f:	vmovaps %zmm10,%zmm18
           19a5:	vfmadd213ps %zmm4,%zmm1,%zmm2
           19ab:	vdivps %zmm2,%zmm4,%zmm1
           19b1:	vmovaps %zmm26,%zmm4
           19b7:	vminps %zmm5,%zmm24,%zmm2
           19bd:	vmaxps %zmm2,%zmm25,%zmm2
           19c3:	vfmsub213ps %zmm3,%zmm2,%zmm4
           19c9:	vpslld $0x17,%zmm4,%zmm5
           19d0:	vaddps %zmm3,%zmm4,%zmm4
           19d6:	vfmadd213ps %zmm2,%zmm21,%zmm4
           19dc:	vmulps %zmm4,%zmm4,%zmm2
           19e2:	vfmadd213ps %zmm9,%zmm2,%zmm6
           19e8:	vfmadd213ps %zmm11,%zmm2,%zmm6
           19ee:	vfmadd213ps %zmm16,%zmm2,%zmm6
           19f4:	vmulps %zmm6,%zmm4,%zmm2
           19fa:	vaddps %zmm16,%zmm5,%zmm4
           1a00:	vsubps %zmm5,%zmm16,%zmm5
           1a06:	vmovaps %zmm2,%zmm6
           1a0c:	vfmsub213ps %zmm5,%zmm4,%zmm6
           1a12:	vfnmadd213ps %zmm4,%zmm5,%zmm2
           1a18:	vmovaps %zmm7,%zmm5
           1a1e:	vdivps %zmm2,%zmm6,%zmm2
           1a24:	vmovaps %zmm10,%zmm6
           1a2a:	vmulps %zmm2,%zmm1,%zmm1
           1a30:	vaddps (%rsi,%rcx,1),%zmm17,%zmm2
           1a37:	vfmadd231ps (%r10,%rcx,1),%zmm0,%zmm1
           1a3e:	vmovaps %zmm9,%zmm17
           1a44:	vminps %zmm2,%zmm28,%zmm0
           1a4a:	vmovaps %zmm30,%zmm2
           1a50:	vmovups %zmm1,(%rbx,%rcx,1)
           1a57:	vmaxps %zmm0,%zmm29,%zmm0
           1a5d:	vfmsub213ps %zmm3,%zmm0,%zmm2
           1a63:	vaddps %zmm3,%zmm2,%zmm4
           1a69:	vpslld $0x17,%zmm2,%zmm2
           1a70:	vfmadd231ps %zmm31,%zmm4,%zmm0
           1a76:	vfmadd231ps %zmm4,%zmm27,%zmm0
           1a7c:	vmulps %zmm0,%zmm0,%zmm4
           1a82:	vfmadd213ps %zmm22,%zmm4,%zmm5
           1a88:	vfmadd213ps %zmm23,%zmm4,%zmm5
           1a8e:	vaddps %zmm0,%zmm5,%zmm4
           1a94:	vsubps %zmm0,%zmm5,%zmm0
           1a9a:	vfmadd213ps %zmm4,%zmm0,%zmm2
           1aa0:	vdivps %zmm2,%zmm4,%zmm0
           1aa6:	vminps %zmm1,%zmm24,%zmm4
           1aac:	vmaxps %zmm4,%zmm25,%zmm2
           1ab2:	vmovaps %zmm26,%zmm4
           1ab8:	vfmsub213ps %zmm3,%zmm2,%zmm4
           1abe:	vpslld $0x17,%zmm4,%zmm5
           1ac5:	vaddps %zmm3,%zmm4,%zmm4
           1acb:	vfmadd213ps %zmm2,%zmm21,%zmm4
           1ad1:	vmulps %zmm4,%zmm4,%zmm2
           1ad7:	vfmadd213ps %zmm9,%zmm2,%zmm6
           1add:	vfmadd213ps %zmm11,%zmm2,%zmm6
           1ae3:	vfmadd213ps %zmm16,%zmm2,%zmm6
           1ae9:	vmulps %zmm6,%zmm4,%zmm2
           1aef:	vaddps %zmm16,%zmm5,%zmm4
           1af5:	vsubps %zmm5,%zmm16,%zmm5
           1afb:	vmovaps %zmm2,%zmm6
           1b01:	vfmsub213ps %zmm5,%zmm4,%zmm6
           1b07:	vfnmadd213ps %zmm4,%zmm5,%zmm2
           1b0d:	vdivps %zmm2,%zmm6,%zmm2
           1b13:	vmulps %zmm2,%zmm0,%zmm0
           1b19:	vmovups %zmm0,(%r11,%rcx,1)
           1b20:	mov    0x50(%rsp),%rcx
           1b25:	cmp    $0x8,%rax
           1b29:	jl     1590 <lstm_workspace_bytes-0x2360>
           1b2f:	jmp    14e0 <lstm_workspace_bytes-0x2410>
           1b34:	data16 data16 cs nopw 0x0(%rax,%rax,1)
           1b40:	mov    %ecx,%eax
           1b42:	and    $0x1,%eax
           1b45:	mov    %r15,0x20(%rsp)
           1b4a:	neg    %rax
           1b4d:	or     $0x1,%rax
           1b51:	mov    %rax,0x38(%rsp)
           1b56:	xor    %eax,%eax
           1b58:	jmp    1b82 <lstm_workspace_bytes-0x1d6e>
           1b5a:	nopw   0x0(%rax,%rax,1)
           1b60:	mov    0xf8(%rsp),%rax
           1b68:	mov    0x90(%rsp),%rdi
           1b70:	mov    0x50(%rsp),%rcx
           1b75:	inc    %rax
           1b78:	cmp    $0x10,%rax
           1b7c:	jge    14e0 <lstm_workspace_bytes-0x2410>
           1b82:	mov    $0xf,%r12d
           1b88:	movabs $0x2aaaaaaaaaaaaaab,%rdx
           1b92:	mov    %rax,0xf8(%rsp)
           1b9a:	sub    %rax,%r12
           1b9d:	test   $0x1,%cl
           1ba0:	lea    0x5(%r14),%rcx
           1ba4:	cmove  %rax,%r12
           1ba8:	mov    %rcx,%rax
           1bab:	imul   %rdx
           1bae:	lea    0xa(%r14),%rax
           1bb2:	mov    %rdx,%rdi
           1bb5:	shr    $0x3f,%rdi
           1bb9:	add    %rdx,%rdi
           1bbc:	cmp    $0xb,%rax
           1bc0:	mov    $0x1,%eax
           1bc5:	mov    %rdi,0x18(%rsp)
           1bca:	cmovb  %rax,%rdi
           1bce:	mov    %r14,%rax
           1bd1:	or     %rdi,%rax
           1bd4:	shr    $0x20,%rax
           1bd8:	je     1c00 <lstm_workspace_bytes-0x1cf0>
           1bda:	mov    %r14,%rax
           1bdd:	cqto
           1bdf:	idiv   %rdi
           1be2:	mov    %rax,0x10(%rsp)
           1be7:	cmp    $0x6,%rcx
           1beb:	jl     1b60 <lstm_workspace_bytes-0x1d90>
           1bf1:	jmp    1c16 <lstm_workspace_bytes-0x1cda>
           1bf3:	data16 data16 data16 cs nopw 0x0(%rax,%rax,1)
           1c00:	mov    %r14d,%eax
           1c03:	xor    %edx,%edx
           1c05:	div    %edi
           1c07:	mov    %rax,0x10(%rsp)
           1c0c:	cmp    $0x6,%rcx
           1c10:	jl     1b60 <lstm_workspace_bytes-0x1d90>
           1c16:	mov    0x10(%rsp),%rax
           1c1b:	mov    %r14,%rcx
           1c1e:	xor    %r10d,%r10d
           1c21:	imul   0x18(%rsp),%rax
           1c27:	sub    %rax,%rcx
           1c2a:	mov    %rcx,0x58(%rsp)
           1c2f:	xor    %ecx,%ecx
           1c31:	jmp    1c56 <lstm_workspace_bytes-0x1c9a>
           1c33:	data16 data16 data16 cs nopw 0x0(%rax,%rax,1)
           1c40:	mov    0x68(%rsp),%r10
           1c45:	add    %r15,%rcx
           1c48:	inc    %r10
           1c4b:	cmp    0x18(%rsp),%r10
           1c50:	jge    1b60 <lstm_workspace_bytes-0x1d90>
           1c56:	xor    %r15d,%r15d
           1c59:	cmp    0x58(%rsp),%r10
           1c5e:	mov    0x10(%rsp),%rax
           1c63:	mov    %r10,0x68(%rsp)
           1c68:	setl   %r15b
           1c6c:	lea    -0x2(%rax,%r15,1),%rax
           1c71:	cmp    $0x3,%rax
           1c75:	ja     23fb <lstm_workspace_bytes-0x14f5>
           1c7b:	lea    0x20345e(%rip),%rdx        # 2050e0 <lstm_supported+0x201540>
           1c82:	movslq (%rdx,%rax,4),%rax
           1c86:	add    %rdx,%rax
           1c89:	jmp    *%rax
           1c8b:	lea    -0x1(%r14),%r11
           1c8f:	mov    %rcx,%rax
           1c92:	shl    $0xa,%rax
           1c96:	mov    %r10,%r14
           1c99:	mov    $0x2,%r10d
           1c9f:	mov    0x20(%rsp),%rdi
           1ca4:	vxorps %xmm0,%xmm0,%xmm0
           1ca8:	vxorps %xmm1,%xmm1,%xmm1
           1cac:	vxorps %xmm9,%xmm9,%xmm9
           1cb1:	vxorps %xmm10,%xmm10,%xmm10
           1cb6:	vxorps %xmm11,%xmm11,%xmm11
           1cbb:	vxorps %xmm12,%xmm12,%xmm12
           1cc0:	vxorps %xmm13,%xmm13,%xmm13
           1cc5:	vxorps %xmm14,%xmm14,%xmm14
           1cca:	cmp    $0x6,%r11
           1cce:	cmovb  %r10,%r14
           1cd2:	mov    0x38(%rsp),%r10
           1cd7:	mov    %r14,%r11
           1cda:	shl    $0x7,%r11
           1cde:	lea    0x400(%rdi,%rax,1),%rdx
           1ce6:	add    %rax,%rdi
           1ce9:	mov    $0x0,%eax
           1cee:	shl    $0x10,%r10
           1cf2:	add    %r11,%r10
           1cf5:	cmp    $0x2,%r14
           1cf9:	mov    %r12,%r11
           1cfc:	cmovge %rax,%r10
           1d00:	shl    $0x10,%r11
           1d04:	add    0x30(%rsp),%r11
           1d09:	xor    %ebx,%ebx
           1d0b:	nopl   0x0(%rax,%rax,1)
           1d10:	mov    %rbx,%rax
           1d13:	shl    $0x8,%rax
           1d17:	vbroadcastss (%rdi,%rbx,4),%zmm2
           1d1e:	vbroadcastss (%rdx,%rbx,4),%zmm4
           1d25:	inc    %rbx
           1d28:	vmovups (%r11,%rax,1),%zmm5
           1d2f:	vmovups 0x40(%r11,%rax,1),%zmm6
           1d37:	vmovups 0x80(%r11,%rax,1),%zmm8
           1d3f:	vmovups 0xc0(%r11,%rax,1),%zmm15
           1d47:	lea    (%r11,%rax,1),%r14
           1d4b:	prefetcht1 (%r10,%r14,1)
           1d50:	prefetcht1 0x40(%r10,%r14,1)
           1d56:	vfmadd231ps %zmm5,%zmm2,%zmm0
           1d5c:	vfmadd231ps %zmm5,%zmm4,%zmm11
           1d62:	vfmadd231ps %zmm6,%zmm2,%zmm1
           1d68:	vfmadd231ps %zmm6,%zmm4,%zmm12
           1d6e:	vfmadd231ps %zmm8,%zmm2,%zmm9
           1d74:	vfmadd231ps %zmm8,%zmm4,%zmm13
           1d7a:	vfmadd231ps %zmm2,%zmm15,%zmm10
           1d80:	vfmadd231ps %zmm15,%zmm4,%zmm14
           1d86:	cmp    $0x100,%rbx
           1d8d:	jl     1d10 <lstm_workspace_bytes-0x1be0>
           1d8f:	vmovaps %zmm0,0x100(%rsp)
           1d97:	vmovaps %zmm1,0x140(%rsp)
           1d9f:	vmovaps %zmm9,0x180(%rsp)
           1da7:	vmovaps %zmm10,0x1c0(%rsp)
           1daf:	vmovaps %zmm11,0x200(%rsp)
           1db7:	vmovaps %zmm12,0x240(%rsp)
           1dbf:	vmovaps %zmm13,0x280(%rsp)
           1dc7:	vmovaps %zmm14,0x2c0(%rsp)
           1dcf:	add    0x10(%rsp),%r15
           1dd4:	mov    0x40(%rsp),%r14
           1dd9:	test   %r15,%r15
           1ddc:	jg     274e <lstm_workspace_bytes-0x11a2>
           1de2:	jmp    297b <lstm_workspace_bytes-0xf75>
           1de7:	nopw   0x0(%rax,%rax,1)
           1df0:	lea    -0x1(%r14),%r11
           1df4:	mov    %rcx,%rax
           1df7:	shl    $0xa,%rax
           1dfb:	mov    %r10,%r14
           1dfe:	mov    $0x2,%r10d
           1e04:	mov    0x20(%rsp),%rdi
           1e09:	vxorps %xmm0,%xmm0,%xmm0
           1e0d:	vxorps %xmm1,%xmm1,%xmm1
           1e11:	vxorps %xmm9,%xmm9,%xmm9
           1e16:	vxorps %xmm10,%xmm10,%xmm10
           1e1b:	vxorps %xmm11,%xmm11,%xmm11
           1e20:	vxorps %xmm12,%xmm12,%xmm12
           1e25:	vxorps %xmm13,%xmm13,%xmm13
           1e2a:	vxorps %xmm14,%xmm14,%xmm14
           1e2f:	vxorps %xmm15,%xmm15,%xmm15
           1e34:	vxorps %xmm17,%xmm17,%xmm17
           1e3a:	vxorps %xmm18,%xmm18,%xmm18
           1e40:	vxorps %xmm19,%xmm19,%xmm19
           1e46:	vxorps %xmm20,%xmm20,%xmm20
           1e4c:	vxorps %xmm21,%xmm21,%xmm21
           1e52:	vxorps %xmm22,%xmm22,%xmm22
           1e58:	vxorps %xmm23,%xmm23,%xmm23
           1e5e:	cmp    $0x6,%r11
           1e62:	cmovb  %r10,%r14
           1e66:	mov    0x38(%rsp),%r10
           1e6b:	mov    %r14,%r11
           1e6e:	shl    $0x7,%r11
           1e72:	lea    (%rdi,%rax,1),%rdx
           1e76:	lea    0x400(%rdi,%rax,1),%rdi
           1e7e:	mov    $0x0,%eax
           1e83:	shl    $0x10,%r10
           1e87:	add    %r11,%r10
           1e8a:	cmp    $0x2,%r14
           1e8e:	mov    %r12,%r11
           1e91:	cmovge %rax,%r10
           1e95:	shl    $0x10,%r11
           1e99:	add    0x30(%rsp),%r11
           1e9e:	xor    %ebx,%ebx
           1ea0:	mov    %rbx,%rax
           1ea3:	shl    $0x8,%rax
           1ea7:	vbroadcastss (%rdx,%rbx,4),%zmm2
           1eae:	vbroadcastss (%rdi,%rbx,4),%zmm4
           1eb5:	vbroadcastss 0x400(%rdi,%rbx,4),%zmm5
           1ec0:	vbroadcastss 0x800(%rdi,%rbx,4),%zmm6
           1ecb:	inc    %rbx
           1ece:	vmovups (%r11,%rax,1),%zmm8
           1ed5:	vmovups 0x40(%r11,%rax,1),%zmm24
           1edd:	vmovups 0x80(%r11,%rax,1),%zmm25
           1ee5:	vmovups 0xc0(%r11,%rax,1),%zmm26
           1eed:	lea    (%r11,%rax,1),%r14
           1ef1:	prefetcht1 (%r10,%r14,1)
           1ef6:	prefetcht1 0x40(%r10,%r14,1)
           1efc:	vfmadd231ps %zmm8,%zmm2,%zmm0
           1f02:	vfmadd231ps %zmm8,%zmm4,%zmm11
           1f08:	vfmadd231ps %zmm8,%zmm5,%zmm15
           1f0e:	vfmadd231ps %zmm8,%zmm6,%zmm20
           1f14:	vfmadd231ps %zmm24,%zmm2,%zmm1
           1f1a:	vfmadd231ps %zmm24,%zmm4,%zmm12
           1f20:	vfmadd231ps %zmm24,%zmm5,%zmm17
           1f26:	vfmadd231ps %zmm24,%zmm6,%zmm21
           1f2c:	vfmadd231ps %zmm25,%zmm2,%zmm9
           1f32:	vfmadd231ps %zmm25,%zmm4,%zmm13
           1f38:	vfmadd231ps %zmm25,%zmm5,%zmm18
           1f3e:	vfmadd231ps %zmm25,%zmm6,%zmm22
           1f44:	vfmadd231ps %zmm2,%zmm26,%zmm10
           1f4a:	vfmadd231ps %zmm4,%zmm26,%zmm14
           1f50:	vfmadd231ps %zmm5,%zmm26,%zmm19
           1f56:	vfmadd231ps %zmm26,%zmm6,%zmm23
           1f5c:	cmp    $0x100,%rbx
           1f63:	jl     1ea0 <lstm_workspace_bytes-0x1a50>
           1f69:	vmovaps %zmm0,0x100(%rsp)
           1f71:	vmovaps %zmm1,0x140(%rsp)
           1f79:	vmovaps %zmm9,0x180(%rsp)
           1f81:	vmovaps %zmm10,0x1c0(%rsp)
           1f89:	vmovaps %zmm11,0x200(%rsp)
           1f91:	vmovaps %zmm12,0x240(%rsp)
           1f99:	vmovaps %zmm13,0x280(%rsp)
           1fa1:	vmovaps %zmm14,0x2c0(%rsp)
           1fa9:	vmovaps %zmm15,0x300(%rsp)
           1fb1:	vmovaps %zmm17,0x340(%rsp)
           1fb9:	vmovaps %zmm18,0x380(%rsp)
           1fc1:	vmovaps %zmm19,0x3c0(%rsp)
           1fc9:	vmovaps %zmm20,0x400(%rsp)
           1fd1:	vmovaps %zmm21,0x440(%rsp)
           1fd9:	vmovaps %zmm22,0x480(%rsp)
           1fe1:	vmovaps %zmm23,0x4c0(%rsp)
           1fe9:	jmp    26e1 <lstm_workspace_bytes-0x120f>
           1fee:	xchg   %ax,%ax
           1ff0:	lea    -0x1(%r14),%r11
           1ff4:	mov    %rcx,%rax
           1ff7:	shl    $0xa,%rax
           1ffb:	mov    %r10,%r14
           1ffe:	mov    $0x2,%r10d
           2004:	mov    0x20(%rsp),%rdx
           2009:	vxorps %xmm0,%xmm0,%xmm0
           200d:	vxorps %xmm1,%xmm1,%xmm1
           2011:	vxorps %xmm9,%xmm9,%xmm9
           2016:	vxorps %xmm10,%xmm10,%xmm10
           201b:	vxorps %xmm11,%xmm11,%xmm11
           2020:	vxorps %xmm12,%xmm12,%xmm12
           2025:	vxorps %xmm13,%xmm13,%xmm13
           202a:	vxorps %xmm14,%xmm14,%xmm14
           202f:	vxorps %xmm15,%xmm15,%xmm15
           2034:	vxorps %xmm17,%xmm17,%xmm17
           203a:	vxorps %xmm18,%xmm18,%xmm18
           2040:	vxorps %xmm19,%xmm19,%xmm19
           2046:	vxorps %xmm20,%xmm20,%xmm20
           204c:	vxorps %xmm21,%xmm21,%xmm21
           2052:	vxorps %xmm22,%xmm22,%xmm22
           2058:	vxorps %xmm23,%xmm23,%xmm23
           205e:	vxorps %xmm24,%xmm24,%xmm24
           2064:	vxorps %xmm25,%xmm25,%xmm25
           206a:	vxorps %xmm26,%xmm26,%xmm26
           2070:	vxorps %xmm27,%xmm27,%xmm27
           2076:	cmp    $0x6,%r11
           207a:	cmovb  %r10,%r14
           207e:	mov    0x38(%rsp),%r10
           2083:	mov    %r14,%r11
           2086:	shl    $0x7,%r11
           208a:	lea    0x400(%rdx,%rax,1),%rdi
           2092:	add    %rax,%rdx
           2095:	mov    $0x0,%eax
           209a:	shl    $0x10,%r10
           209e:	add    %r11,%r10
           20a1:	cmp    $0x2,%r14
           20a5:	mov    %r12,%r11
           20a8:	cmovge %rax,%r10
           20ac:	shl    $0x10,%r11
           20b0:	add    0x30(%rsp),%r11
           20b5:	xor    %ebx,%ebx
           20b7:	nopw   0x0(%rax,%rax,1)
           20c0:	mov    %rbx,%rax
  0.40     20c3:	shl    $0x8,%rax
           20c7:	vbroadcastss (%rdx,%rbx,4),%zmm5
  0.67     20ce:	vmovups (%r11,%rax,1),%zmm2
  0.53     20d5:	vmovups 0x40(%r11,%rax,1),%zmm4
  0.67     20dd:	vmovups 0x80(%r11,%rax,1),%zmm6
  1.20     20e5:	vmovups 0xc0(%r11,%rax,1),%zmm8
  1.60     20ed:	lea    (%r11,%rax,1),%r14
  1.20     20f1:	prefetcht1 (%r10,%r14,1)
  0.27     20f6:	prefetcht1 0x40(%r10,%r14,1)
  0.80     20fc:	vfmadd231ps %zmm2,%zmm5,%zmm0
  0.67     2102:	vfmadd231ps %zmm4,%zmm5,%zmm1
  0.94     2108:	vfmadd231ps %zmm6,%zmm5,%zmm9
  1.20     210e:	vfmadd231ps %zmm5,%zmm8,%zmm10
  1.34     2114:	vbroadcastss (%rdi,%rbx,4),%zmm5
  1.07     211b:	vfmadd231ps %zmm2,%zmm5,%zmm11
  0.80     2121:	vfmadd231ps %zmm4,%zmm5,%zmm12
  1.47     2127:	vfmadd231ps %zmm6,%zmm5,%zmm13
  1.07     212d:	vfmadd231ps %zmm5,%zmm8,%zmm14
  1.07     2133:	vbroadcastss 0x400(%rdi,%rbx,4),%zmm5
  0.67     213e:	vfmadd231ps %zmm2,%zmm5,%zmm15
  0.80     2144:	vfmadd231ps %zmm4,%zmm5,%zmm17
  0.27     214a:	vfmadd231ps %zmm6,%zmm5,%zmm18
  0.27     2150:	vfmadd231ps %zmm5,%zmm8,%zmm19
  0.53     2156:	vbroadcastss 0x800(%rdi,%rbx,4),%zmm5
  0.67     2161:	vfmadd231ps %zmm2,%zmm5,%zmm20
  0.40     2167:	vfmadd231ps %zmm4,%zmm5,%zmm21
  1.20     216d:	vfmadd231ps %zmm6,%zmm5,%zmm22
  0.94     2173:	vfmadd231ps %zmm5,%zmm8,%zmm23
  0.27     2179:	vbroadcastss 0xc00(%rdi,%rbx,4),%zmm5
  0.53     2184:	inc    %rbx
  0.94     2187:	vfmadd231ps %zmm2,%zmm5,%zmm24
  0.53     218d:	vfmadd231ps %zmm4,%zmm5,%zmm25
  0.80     2193:	vfmadd231ps %zmm6,%zmm5,%zmm26
  0.53     2199:	vfmadd231ps %zmm8,%zmm5,%zmm27
  0.94     219f:	cmp    $0x100,%rbx
  0.27     21a6:	jl     20c0 <lstm_workspace_bytes-0x1830>
           21ac:	vmovaps %zmm0,0x100(%rsp)
           21b4:	vmovaps %zmm1,0x140(%rsp)
           21bc:	vmovaps %zmm9,0x180(%rsp)
           21c4:	vmovaps %zmm10,0x1c0(%rsp)
           21cc:	vmovaps %zmm11,0x200(%rsp)
           21d4:	vmovaps %zmm12,0x240(%rsp)
           21dc:	vmovaps %zmm13,0x280(%rsp)
           21e4:	vmovaps %zmm14,0x2c0(%rsp)
           21ec:	vmovaps %zmm15,0x300(%rsp)
           21f4:	vmovaps %zmm17,0x340(%rsp)
           21fc:	vmovaps %zmm18,0x380(%rsp)
           2204:	vmovaps %zmm19,0x3c0(%rsp)
           220c:	vmovaps %zmm20,0x400(%rsp)
           2214:	vmovaps %zmm21,0x440(%rsp)
           221c:	vmovaps %zmm22,0x480(%rsp)
           2224:	vmovaps %zmm23,0x4c0(%rsp)
           222c:	vmovaps %zmm24,0x500(%rsp)
           2234:	vmovaps %zmm25,0x540(%rsp)
  0.13     223c:	vmovaps %zmm26,0x580(%rsp)
           2244:	vmovaps %zmm27,0x5c0(%rsp)
           224c:	jmp    26d7 <lstm_workspace_bytes-0x1219>
           2251:	lea    -0x1(%r14),%r11
           2255:	mov    %rcx,%rax
           2258:	shl    $0xa,%rax
           225c:	mov    %r10,%r14
           225f:	mov    $0x2,%r10d
           2265:	mov    0x20(%rsp),%rdi
           226a:	vxorps %xmm0,%xmm0,%xmm0
           226e:	vxorps %xmm1,%xmm1,%xmm1
           2272:	vxorps %xmm9,%xmm9,%xmm9
           2277:	vxorps %xmm10,%xmm10,%xmm10
           227c:	vxorps %xmm11,%xmm11,%xmm11
           2281:	vxorps %xmm12,%xmm12,%xmm12
           2286:	vxorps %xmm13,%xmm13,%xmm13
           228b:	vxorps %xmm14,%xmm14,%xmm14
           2290:	vxorps %xmm15,%xmm15,%xmm15
           2295:	vxorps %xmm17,%xmm17,%xmm17
           229b:	vxorps %xmm18,%xmm18,%xmm18
           22a1:	vxorps %xmm19,%xmm19,%xmm19
           22a7:	cmp    $0x6,%r11
           22ab:	cmovb  %r10,%r14
           22af:	mov    0x38(%rsp),%r10
           22b4:	mov    %r14,%r11
           22b7:	shl    $0x7,%r11
           22bb:	lea    (%rdi,%rax,1),%rdx
           22bf:	lea    0x400(%rdi,%rax,1),%rdi
           22c7:	mov    $0x0,%eax
           22cc:	shl    $0x10,%r10
           22d0:	add    %r11,%r10
           22d3:	cmp    $0x2,%r14
           22d7:	mov    %r12,%r11
           22da:	cmovge %rax,%r10
           22de:	shl    $0x10,%r11
           22e2:	add    0x30(%rsp),%r11
           22e7:	xor    %ebx,%ebx
           22e9:	nopl   0x0(%rax)
           22f0:	mov    %rbx,%rax
           22f3:	shl    $0x8,%rax
           22f7:	vbroadcastss (%rdx,%rbx,4),%zmm2
           22fe:	vbroadcastss (%rdi,%rbx,4),%zmm4
           2305:	vbroadcastss 0x400(%rdi,%rbx,4),%zmm5
           2310:	inc    %rbx
           2313:	vmovups (%r11,%rax,1),%zmm6
           231a:	vmovups 0x40(%r11,%rax,1),%zmm8
           2322:	vmovups 0x80(%r11,%rax,1),%zmm20
           232a:	vmovups 0xc0(%r11,%rax,1),%zmm21
           2332:	lea    (%r11,%rax,1),%r14
           2336:	prefetcht1 (%r10,%r14,1)
           233b:	prefetcht1 0x40(%r10,%r14,1)
           2341:	vfmadd231ps %zmm6,%zmm2,%zmm0
           2347:	vfmadd231ps %zmm6,%zmm4,%zmm11
           234d:	vfmadd231ps %zmm6,%zmm5,%zmm15
           2353:	vfmadd231ps %zmm8,%zmm2,%zmm1
           2359:	vfmadd231ps %zmm8,%zmm4,%zmm12
           235f:	vfmadd231ps %zmm8,%zmm5,%zmm17
           2365:	vfmadd231ps %zmm20,%zmm2,%zmm9
           236b:	vfmadd231ps %zmm20,%zmm4,%zmm13
           2371:	vfmadd231ps %zmm20,%zmm5,%zmm18
           2377:	vfmadd231ps %zmm2,%zmm21,%zmm10
           237d:	vfmadd231ps %zmm4,%zmm21,%zmm14
           2383:	vfmadd231ps %zmm21,%zmm5,%zmm19
           2389:	cmp    $0x100,%rbx
           2390:	jl     22f0 <lstm_workspace_bytes-0x1600>
           2396:	vmovaps %zmm0,0x100(%rsp)
           239e:	vmovaps %zmm1,0x140(%rsp)
           23a6:	vmovaps %zmm9,0x180(%rsp)
           23ae:	vmovaps %zmm10,0x1c0(%rsp)
           23b6:	vmovaps %zmm11,0x200(%rsp)
           23be:	vmovaps %zmm12,0x240(%rsp)
           23c6:	vmovaps %zmm13,0x280(%rsp)
           23ce:	vmovaps %zmm14,0x2c0(%rsp)
           23d6:	vmovaps %zmm15,0x300(%rsp)
           23de:	vmovaps %zmm17,0x340(%rsp)
           23e6:	vmovaps %zmm18,0x380(%rsp)
           23ee:	vmovaps %zmm19,0x3c0(%rsp)
           23f6:	jmp    2713 <lstm_workspace_bytes-0x11dd>
           23fb:	mov    0x20(%rsp),%rdx
           2400:	mov    0x38(%rsp),%rbx
           2405:	mov    %rcx,%rax
           2408:	shl    $0xa,%rax
           240c:	vxorps %xmm17,%xmm17,%xmm17
           2412:	vxorps %xmm0,%xmm0,%xmm0
           2416:	vxorps %xmm1,%xmm1,%xmm1
           241a:	vxorps %xmm9,%xmm9,%xmm9
           241f:	vxorps %xmm10,%xmm10,%xmm10
           2424:	vxorps %xmm11,%xmm11,%xmm11
           2429:	vxorps %xmm12,%xmm12,%xmm12
           242e:	vxorps %xmm13,%xmm13,%xmm13
           2433:	vxorps %xmm14,%xmm14,%xmm14
           2438:	vxorps %xmm15,%xmm15,%xmm15
           243d:	vxorps %xmm18,%xmm18,%xmm18
           2443:	vxorps %xmm19,%xmm19,%xmm19
           2449:	vxorps %xmm20,%xmm20,%xmm20
           244f:	vxorps %xmm21,%xmm21,%xmm21
           2455:	vxorps %xmm22,%xmm22,%xmm22
           245b:	vxorps %xmm23,%xmm23,%xmm23
           2461:	vxorps %xmm24,%xmm24,%xmm24
           2467:	vxorps %xmm25,%xmm25,%xmm25
           246d:	vxorps %xmm26,%xmm26,%xmm26
           2473:	vxorps %xmm27,%xmm27,%xmm27
           2479:	vxorps %xmm28,%xmm28,%xmm28
           247f:	vxorps %xmm29,%xmm29,%xmm29
           2485:	vxorps %xmm30,%xmm30,%xmm30
           248b:	vxorps %xmm31,%xmm31,%xmm31
           2491:	lea    (%rdx,%rax,1),%r11
           2495:	lea    0x400(%rdx,%rax,1),%rdi
           249d:	lea    -0x1(%r14),%rdx
           24a1:	mov    %r10,%rax
           24a4:	mov    %r12,%r10
           24a7:	cmp    $0x6,%rdx
           24ab:	mov    $0x2,%edx
           24b0:	cmovb  %rdx,%rax
           24b4:	shl    $0x10,%rbx
           24b8:	mov    %rax,%rdx
           24bb:	shl    $0x7,%rdx
           24bf:	add    %rdx,%rbx
           24c2:	cmp    $0x2,%rax
           24c6:	mov    $0x0,%eax
           24cb:	cmovge %rax,%rbx
           24cf:	shl    $0x10,%r10
           24d3:	add    0x30(%rsp),%r10
           24d8:	xor    %edx,%edx
           24da:	nopw   0x0(%rax,%rax,1)
           24e0:	mov    %rdx,%rax
  0.27     24e3:	shl    $0x8,%rax
           24e7:	vbroadcastss (%r11,%rdx,4),%zmm8
  0.27     24ee:	vmovups (%r10,%rax,1),%zmm2
  0.13     24f5:	vmovups 0x40(%r10,%rax,1),%zmm4
  0.53     24fd:	vmovups 0x80(%r10,%rax,1),%zmm5
  1.07     2505:	vmovups 0xc0(%r10,%rax,1),%zmm6
  0.40     250d:	lea    (%r10,%rax,1),%r14
  0.27     2511:	prefetcht1 (%rbx,%r14,1)
  0.40     2516:	prefetcht1 0x40(%rbx,%r14,1)
  0.53     251c:	vfmadd231ps %zmm2,%zmm8,%zmm17
  1.20     2522:	vfmadd231ps %zmm4,%zmm8,%zmm0
  1.07     2528:	vfmadd231ps %zmm5,%zmm8,%zmm1
  1.07     252e:	vfmadd231ps %zmm8,%zmm6,%zmm9
  0.94     2534:	vbroadcastss (%rdi,%rdx,4),%zmm8
  0.13     253b:	vfmadd231ps %zmm2,%zmm8,%zmm10
  0.27     2541:	vfmadd231ps %zmm4,%zmm8,%zmm11
  0.13     2547:	vfmadd231ps %zmm5,%zmm8,%zmm12
           254d:	vfmadd231ps %zmm8,%zmm6,%zmm13
  0.40     2553:	vbroadcastss 0x400(%rdi,%rdx,4),%zmm8
  1.34     255e:	vfmadd231ps %zmm2,%zmm8,%zmm14
  0.40     2564:	vfmadd231ps %zmm4,%zmm8,%zmm15
  0.67     256a:	vfmadd231ps %zmm5,%zmm8,%zmm18
  0.13     2570:	vfmadd231ps %zmm8,%zmm6,%zmm19
  0.13     2576:	vbroadcastss 0x800(%rdi,%rdx,4),%zmm8
  0.53     2581:	vfmadd231ps %zmm2,%zmm8,%zmm20
  0.53     2587:	vfmadd231ps %zmm4,%zmm8,%zmm21
  1.47     258d:	vfmadd231ps %zmm5,%zmm8,%zmm22
  1.07     2593:	vfmadd231ps %zmm8,%zmm6,%zmm23
  0.27     2599:	vbroadcastss 0xc00(%rdi,%rdx,4),%zmm8
  0.40     25a4:	vfmadd231ps %zmm2,%zmm8,%zmm24
  0.27     25aa:	vfmadd231ps %zmm4,%zmm8,%zmm25
  0.53     25b0:	vfmadd231ps %zmm5,%zmm8,%zmm26
  0.27     25b6:	vfmadd231ps %zmm8,%zmm6,%zmm27
  0.40     25bc:	vbroadcastss 0x1000(%rdi,%rdx,4),%zmm8
  0.40     25c7:	inc    %rdx
  0.80     25ca:	vfmadd231ps %zmm2,%zmm8,%zmm28
  0.13     25d0:	vfmadd231ps %zmm4,%zmm8,%zmm29
  0.13     25d6:	vfmadd231ps %zmm5,%zmm8,%zmm30
  0.13     25dc:	vfmadd231ps %zmm6,%zmm8,%zmm31
  0.13     25e2:	cmp    $0x100,%rdx
           25e9:	jl     24e0 <lstm_workspace_bytes-0x1410>
           25ef:	vmovaps %zmm17,0x100(%rsp)
           25f7:	vmovaps %zmm0,0x140(%rsp)
           25ff:	vmovaps %zmm1,0x180(%rsp)
           2607:	vmovaps %zmm9,0x1c0(%rsp)
           260f:	vmovaps %zmm10,0x200(%rsp)
           2617:	vmovaps %zmm11,0x240(%rsp)
           261f:	vmovaps %zmm12,0x280(%rsp)
           2627:	vmovaps %zmm13,0x2c0(%rsp)
           262f:	vmovaps %zmm14,0x300(%rsp)
           2637:	vmovaps %zmm15,0x340(%rsp)
           263f:	vmovaps %zmm18,0x380(%rsp)
  0.13     2647:	vmovaps %zmm19,0x3c0(%rsp)
           264f:	vmovaps %zmm20,0x400(%rsp)
           2657:	vmovaps %zmm21,0x440(%rsp)
           265f:	vmovaps %zmm22,0x480(%rsp)
           2667:	vmovaps %zmm23,0x4c0(%rsp)
           266f:	vmovaps %zmm24,0x500(%rsp)
           2677:	vmovaps %zmm25,0x540(%rsp)
           267f:	vmovaps %zmm26,0x580(%rsp)
           2687:	vmovaps %zmm27,0x5c0(%rsp)
           268f:	vmovaps %zmm28,0x600(%rsp)
           2697:	vmovaps %zmm29,0x640(%rsp)
           269f:	vmovaps %zmm30,0x680(%rsp)
           26a7:	vmovaps %zmm31,0x6c0(%rsp)
           26af:	vbroadcastss 0x2029c7(%rip),%zmm28        # 205080 <lstm_supported+0x2014e0>
  0.13     26b9:	vbroadcastss 0x2029c1(%rip),%zmm29        # 205084 <lstm_supported+0x2014e4>
           26c3:	vbroadcastss 0x2029bb(%rip),%zmm30        # 205088 <lstm_supported+0x2014e8>
           26cd:	vbroadcastss 0x2029b9(%rip),%zmm31        # 205090 <lstm_supported+0x2014f0>
           26d7:	vbroadcastss 0x2029b3(%rip),%zmm27        # 205094 <lstm_supported+0x2014f4>
           26e1:	vbroadcastss 0x2029ad(%rip),%zmm22        # 205098 <lstm_supported+0x2014f8>
           26eb:	vbroadcastss 0x2029ab(%rip),%zmm23        # 2050a0 <lstm_supported+0x201500>
           26f5:	vbroadcastss 0x2029a5(%rip),%zmm24        # 2050a4 <lstm_supported+0x201504>
           26ff:	vbroadcastss 0x20299f(%rip),%zmm25        # 2050a8 <lstm_supported+0x201508>
           2709:	vbroadcastss 0x202999(%rip),%zmm26        # 2050ac <lstm_supported+0x20150c>
           2713:	vbroadcastss 0x202993(%rip),%zmm21        # 2050b0 <lstm_supported+0x201510>
           271d:	vbroadcastss 0x202991(%rip),%zmm17        # 2050b8 <lstm_supported+0x201518>
           2727:	vbroadcastss 0x202983(%rip),%zmm18        # 2050b4 <lstm_supported+0x201514>
           2731:	vbroadcastss 0x202981(%rip),%zmm19        # 2050bc <lstm_supported+0x20151c>
           273b:	add    0x10(%rsp),%r15
  0.13     2740:	mov    0x40(%rsp),%r14
  0.13     2745:	test   %r15,%r15
           2748:	jle    297b <lstm_workspace_bytes-0xf75>
           274e:	xor    %edi,%edi
           2750:	lea    (%rcx,%rdi,1),%r10
           2754:	mov    %rdi,%r11
           2757:	shl    $0x8,%r11
           275b:	mov    %r12,%rbx
           275e:	shl    $0x6,%rbx
           2762:	vmovaps %zmm30,%zmm4
           2768:	vmovaps %zmm30,%zmm10
           276e:	vmovaps %zmm7,%zmm6
           2774:	inc    %rdi
           2777:	mov    %r10,%rdx
           277a:	shl    $0xc,%rdx
           277e:	vmovups 0x140(%rsp,%r11,1),%zmm0
  0.13     2786:	vmovups 0x180(%rsp,%r11,1),%zmm1
           278e:	vmovups 0x100(%rsp,%r11,1),%zmm2
  0.13     2796:	shl    $0xa,%r10
           279a:	lea    (%r9,%rdx,1),%rax
           279e:	add    %r14,%r10
           27a1:	vaddps (%rbx,%rax,1),%zmm0,%zmm0
           27a8:	lea    (%r8,%rdx,1),%rax
           27ac:	vaddps (%rbx,%rax,1),%zmm1,%zmm1
           27b3:	lea    0x0(%r13,%rdx,1),%rax
           27b8:	add    %rsi,%rdx
           27bb:	vaddps (%rbx,%rax,1),%zmm2,%zmm2
           27c2:	vminps %zmm0,%zmm28,%zmm0
           27c8:	vminps %zmm1,%zmm24,%zmm1
           27ce:	vminps %zmm2,%zmm28,%zmm2
           27d4:	vmaxps %zmm0,%zmm29,%zmm0
           27da:	vmaxps %zmm1,%zmm25,%zmm1
  0.13     27e0:	vmaxps %zmm2,%zmm29,%zmm2
           27e6:	vfmsub213ps %zmm3,%zmm0,%zmm10
           27ec:	vfmsub213ps %zmm3,%zmm2,%zmm4
           27f2:	vaddps %zmm3,%zmm10,%zmm9
           27f8:	vaddps %zmm3,%zmm4,%zmm5
  0.13     27fe:	vpslld $0x17,%zmm4,%zmm4
           2805:	vfmadd231ps %zmm31,%zmm9,%zmm0
           280b:	vfmadd231ps %zmm31,%zmm5,%zmm2
  0.13     2811:	vfmadd231ps %zmm9,%zmm27,%zmm0
  0.27     2817:	vfmadd231ps %zmm5,%zmm27,%zmm2
           281d:	vmulps %zmm0,%zmm0,%zmm9
  0.13     2823:	vmulps %zmm2,%zmm2,%zmm5
           2829:	vfmadd213ps %zmm22,%zmm5,%zmm6
           282f:	vfmadd213ps %zmm23,%zmm5,%zmm6
           2835:	vmovaps %zmm3,%zmm5
           283b:	vfmsub231ps %zmm26,%zmm1,%zmm5
           2841:	vaddps %zmm2,%zmm6,%zmm8
           2847:	vsubps %zmm2,%zmm6,%zmm2
           284d:	vmovaps %zmm7,%zmm6
           2853:	vfmadd213ps %zmm22,%zmm9,%zmm6
           2859:	vfmadd213ps %zmm8,%zmm2,%zmm4
           285f:	vpslld $0x17,%zmm10,%zmm2
           2866:	vpslld $0x17,%zmm5,%zmm10
           286d:	vaddps %zmm3,%zmm5,%zmm5
  0.27     2873:	vfmadd213ps %zmm23,%zmm9,%zmm6
           2879:	vfmadd132ps %zmm21,%zmm1,%zmm5
           287f:	vdivps %zmm4,%zmm8,%zmm4
  0.67     2885:	vaddps %zmm0,%zmm6,%zmm9
  0.13     288b:	vsubps %zmm0,%zmm6,%zmm0
           2891:	vmovaps %zmm18,%zmm6
           2897:	vmulps %zmm5,%zmm5,%zmm1
           289d:	vfmadd213ps %zmm9,%zmm0,%zmm2
  0.13     28a3:	vsubps %zmm10,%zmm16,%zmm0
           28a9:	vfmadd213ps %zmm17,%zmm1,%zmm6
           28af:	vdivps %zmm2,%zmm9,%zmm2
           28b5:	vfmadd213ps %zmm19,%zmm1,%zmm6
           28bb:	vfmadd213ps %zmm16,%zmm1,%zmm6
           28c1:	vmulps %zmm6,%zmm5,%zmm1
           28c7:	vaddps %zmm16,%zmm10,%zmm5
           28cd:	vmovaps %zmm1,%zmm6
           28d3:	vfmsub213ps %zmm0,%zmm5,%zmm6
           28d9:	vfnmadd213ps %zmm5,%zmm0,%zmm1
           28df:	vmovaps %zmm7,%zmm5
  0.40     28e5:	vdivps %zmm1,%zmm6,%zmm0
  0.13     28eb:	vmulps %zmm0,%zmm2,%zmm0
           28f1:	vmovups 0x1c0(%rsp,%r11,1),%zmm2
           28f9:	vfmadd231ps (%rbx,%r10,1),%zmm4,%zmm0
           2900:	vaddps (%rbx,%rdx,1),%zmm2,%zmm1
           2907:	vmovaps %zmm30,%zmm2
           290d:	vminps %zmm1,%zmm28,%zmm1
           2913:	vmovups %zmm0,0x100(%rsp,%r11,1)
           291b:	vmaxps %zmm1,%zmm29,%zmm1
           2921:	vfmsub213ps %zmm3,%zmm1,%zmm2
           2927:	vaddps %zmm3,%zmm2,%zmm4
           292d:	vpslld $0x17,%zmm2,%zmm2
           2934:	vfmadd231ps %zmm31,%zmm4,%zmm1
           293a:	vfmadd231ps %zmm4,%zmm27,%zmm1
           2940:	vmulps %zmm1,%zmm1,%zmm4
           2946:	vfmadd213ps %zmm22,%zmm4,%zmm5
           294c:	vfmadd213ps %zmm23,%zmm4,%zmm5
           2952:	vaddps %zmm1,%zmm5,%zmm4
           2958:	vsubps %zmm1,%zmm5,%zmm1
           295e:	vfmadd213ps %zmm4,%zmm1,%zmm2
           2964:	vdivps %zmm2,%zmm4,%zmm1
  0.27     296a:	vmovups %zmm1,0x140(%rsp,%r11,1)
           2972:	cmp    %r15,%rdi
           2975:	jl     2750 <lstm_workspace_bytes-0x11a0>
           297b:	mov    0x98(%rsp),%r14
           2983:	mov    0x60(%rsp),%rbx
           2988:	mov    0x48(%rsp),%r11
           298d:	test   %r15,%r15
           2990:	jle    1c40 <lstm_workspace_bytes-0x1cb0>
           2996:	xor    %edx,%edx
           2998:	nopl   0x0(%rax,%rax,1)
           29a0:	mov    %rdx,%r10
           29a3:	shl    $0x8,%r10
           29a7:	vmovaps %zmm3,%zmm2
  0.13     29ad:	vmovaps %zmm18,%zmm5
           29b3:	lea    (%rcx,%rdx,1),%rdi
           29b7:	inc    %rdx
           29ba:	vmovups 0x100(%rsp,%r10,1),%zmm0
           29c2:	shl    $0xa,%rdi
           29c6:	lea    (%rbx,%rdi,1),%rax
           29ca:	add    %r11,%rdi
           29cd:	vminps %zmm0,%zmm24,%zmm1
           29d3:	vmaxps %zmm1,%zmm25,%zmm1
           29d9:	vfmsub231ps %zmm26,%zmm1,%zmm2
           29df:	vaddps %zmm3,%zmm2,%zmm4
           29e5:	vpslld $0x17,%zmm2,%zmm2
           29ec:	vfmadd132ps %zmm21,%zmm1,%zmm4
           29f2:	vmulps %zmm4,%zmm4,%zmm1
           29f8:	vfmadd213ps %zmm17,%zmm1,%zmm5
           29fe:	vfmadd213ps %zmm19,%zmm1,%zmm5
  0.13     2a04:	vfmadd213ps %zmm16,%zmm1,%zmm5
           2a0a:	vmulps %zmm5,%zmm4,%zmm1
           2a10:	vaddps %zmm16,%zmm2,%zmm4
           2a16:	vsubps %zmm2,%zmm16,%zmm2
           2a1c:	vmovaps %zmm1,%zmm5
           2a22:	vfmsub213ps %zmm2,%zmm4,%zmm5
           2a28:	vfnmadd213ps %zmm4,%zmm2,%zmm1
           2a2e:	vdivps %zmm1,%zmm5,%zmm1
  0.40     2a34:	vmulps 0x140(%rsp,%r10,1),%zmm1,%zmm1
           2a3c:	mov    %r12,%r10
           2a3f:	shl    $0x6,%r10
           2a43:	vmovups %zmm0,(%r10,%rax,1)
           2a4a:	vmovups %zmm1,(%r10,%rdi,1)
           2a51:	cmp    %r15,%rdx
           2a54:	jl     29a0 <lstm_workspace_bytes-0xf50>
           2a5a:	jmp    1c40 <lstm_workspace_bytes-0x1cb0>
           2a5f:	nop
           2a60:	mov    %r13d,%eax
           2a63:	and    $0x1,%eax
           2a66:	mov    %r9,0x10(%rsp)
           2a6b:	mov    %r15,0x20(%rsp)
           2a70:	neg    %rax
           2a73:	or     $0x1,%rax
           2a77:	mov    %rax,0x18(%rsp)
           2a7c:	xor    %eax,%eax
           2a7e:	jmp    2aa4 <lstm_workspace_bytes-0xe4c>
           2a80:	mov    0x48(%rsp),%rax
           2a85:	mov    0x20(%rsp),%r15
           2a8a:	mov    0x80(%rsp),%r13
           2a92:	mov    0x10(%rsp),%r9
           2a97:	inc    %rax
           2a9a:	cmp    $0x10,%rax
           2a9e:	jge    14c9 <lstm_workspace_bytes-0x2427>
           2aa4:	mov    $0xf,%r15d
           2aaa:	lea    0x5(%r9),%rcx
           2aae:	movabs $0x2aaaaaaaaaaaaaab,%rdx
           2ab8:	mov    %rax,0x48(%rsp)
           2abd:	sub    %rax,%r15
           2ac0:	test   $0x1,%r13b
           2ac4:	cmove  %rax,%r15
           2ac8:	mov    %rcx,%rax
           2acb:	imul   %rdx
           2ace:	lea    0xa(%r9),%rax
           2ad2:	mov    %rdx,%r13
           2ad5:	shr    $0x3f,%r13
           2ad9:	add    %rdx,%r13
           2adc:	cmp    $0xb,%rax
           2ae0:	mov    $0x1,%eax
           2ae5:	mov    %r13,%rsi
           2ae8:	cmovb  %rax,%rsi
           2aec:	mov    %r9,%rax
           2aef:	or     %rsi,%rax
           2af2:	shr    $0x20,%rax
           2af6:	je     2b10 <lstm_workspace_bytes-0xde0>
           2af8:	mov    %r9,%rax
           2afb:	cqto
           2afd:	idiv   %rsi
           2b00:	cmp    $0x6,%rcx
           2b04:	jl     2a80 <lstm_workspace_bytes-0xe70>
           2b0a:	jmp    2b21 <lstm_workspace_bytes-0xdcf>
           2b0c:	nopl   0x0(%rax)
           2b10:	mov    %r9d,%eax
           2b13:	xor    %edx,%edx
           2b15:	div    %esi
           2b17:	cmp    $0x6,%rcx
           2b1b:	jl     2a80 <lstm_workspace_bytes-0xe70>
           2b21:	mov    0x10(%rsp),%rcx
           2b26:	mov    %rax,%rdx
           2b29:	imul   %r13,%rdx
           2b2d:	xor    %esi,%esi
           2b2f:	sub    %rdx,%rcx
           2b32:	xor    %edx,%edx
           2b34:	mov    %rcx,0x68(%rsp)
           2b39:	jmp    2b54 <lstm_workspace_bytes-0xd9c>
           2b3b:	nopl   0x0(%rax,%rax,1)
           2b40:	mov    0x60(%rsp),%rbx
  0.13     2b45:	add    %r10,%rsi
           2b48:	inc    %rdx
           2b4b:	cmp    %r13,%rdx
           2b4e:	jge    2a80 <lstm_workspace_bytes-0xe70>
           2b54:	xor    %r10d,%r10d
           2b57:	cmp    0x68(%rsp),%rdx
           2b5c:	setl   %r10b
           2b60:	lea    -0x2(%rax,%r10,1),%rdi
           2b65:	cmp    $0x3,%rdi
           2b69:	ja     32db <lstm_workspace_bytes-0x615>
           2b6f:	lea    0x20255a(%rip),%rcx        # 2050d0 <lstm_supported+0x201530>
           2b76:	movslq (%rcx,%rdi,4),%rdi
           2b7a:	add    %rcx,%rdi
  0.13     2b7d:	jmp    *%rdi
           2b7f:	mov    0x10(%rsp),%rcx
           2b84:	mov    %rsi,%r9
           2b87:	shl    $0xa,%r9
           2b8b:	mov    %rdx,%rbx
           2b8e:	vxorps %xmm0,%xmm0,%xmm0
           2b92:	vxorps %xmm1,%xmm1,%xmm1
           2b96:	vxorps %xmm9,%xmm9,%xmm9
           2b9b:	vxorps %xmm10,%xmm10,%xmm10
           2ba0:	vxorps %xmm11,%xmm11,%xmm11
           2ba5:	vxorps %xmm12,%xmm12,%xmm12
           2baa:	vxorps %xmm13,%xmm13,%xmm13
           2baf:	vxorps %xmm14,%xmm14,%xmm14
           2bb4:	lea    0x400(%r8,%r9,1),%rdi
           2bbc:	add    %r8,%r9
           2bbf:	lea    -0x1(%rcx),%r11
           2bc3:	mov    $0x2,%ecx
           2bc8:	cmp    $0x6,%r11
           2bcc:	mov    0x18(%rsp),%r11
           2bd1:	cmovb  %rcx,%rbx
           2bd5:	mov    $0x0,%ecx
           2bda:	mov    %rbx,%r12
           2bdd:	shl    $0x7,%r12
           2be1:	shl    $0x10,%r11
           2be5:	add    %r12,%r11
           2be8:	cmp    $0x2,%rbx
           2bec:	mov    %r15,%rbx
           2bef:	cmovge %rcx,%r11
           2bf3:	shl    $0x10,%rbx
           2bf7:	add    0x28(%rsp),%rbx
           2bfc:	xor    %ecx,%ecx
           2bfe:	xchg   %ax,%ax
           2c00:	mov    %rcx,%r12
           2c03:	shl    $0x8,%r12
           2c07:	vbroadcastss (%r9,%rcx,4),%zmm15
           2c0e:	vbroadcastss (%rdi,%rcx,4),%zmm17
           2c15:	inc    %rcx
           2c18:	vmovups (%rbx,%r12,1),%zmm18
           2c1f:	vmovups 0x40(%rbx,%r12,1),%zmm19
           2c27:	vmovups 0x80(%rbx,%r12,1),%zmm20
           2c2f:	vmovups 0xc0(%rbx,%r12,1),%zmm21
           2c37:	lea    (%rbx,%r12,1),%r14
           2c3b:	prefetcht1 (%r11,%r14,1)
           2c40:	prefetcht1 0x40(%r11,%r14,1)
           2c46:	vfmadd231ps %zmm18,%zmm15,%zmm0
           2c4c:	vfmadd231ps %zmm18,%zmm17,%zmm11
           2c52:	vfmadd231ps %zmm19,%zmm15,%zmm1
           2c58:	vfmadd231ps %zmm19,%zmm17,%zmm12
           2c5e:	vfmadd231ps %zmm20,%zmm15,%zmm9
           2c64:	vfmadd231ps %zmm20,%zmm17,%zmm13
           2c6a:	vfmadd231ps %zmm15,%zmm21,%zmm10
           2c70:	vfmadd231ps %zmm21,%zmm17,%zmm14
           2c76:	cmp    $0x100,%rcx
           2c7d:	jl     2c00 <lstm_workspace_bytes-0xcf0>
           2c7f:	vmovaps %zmm0,0x100(%rsp)
           2c87:	vmovaps %zmm1,0x140(%rsp)
           2c8f:	vmovaps %zmm9,0x180(%rsp)
           2c97:	vmovaps %zmm10,0x1c0(%rsp)
           2c9f:	vmovaps %zmm11,0x200(%rsp)
           2ca7:	vmovaps %zmm12,0x240(%rsp)
           2caf:	vmovaps %zmm13,0x280(%rsp)
           2cb7:	vmovaps %zmm14,0x2c0(%rsp)
           2cbf:	jmp    35f3 <lstm_workspace_bytes-0x2fd>
           2cc4:	data16 data16 cs nopw 0x0(%rax,%rax,1)
           2cd0:	mov    0x10(%rsp),%rcx
           2cd5:	mov    %rsi,%r9
           2cd8:	shl    $0xa,%r9
           2cdc:	mov    %rdx,%rbx
           2cdf:	vxorps %xmm0,%xmm0,%xmm0
           2ce3:	vxorps %xmm1,%xmm1,%xmm1
           2ce7:	vxorps %xmm9,%xmm9,%xmm9
           2cec:	vxorps %xmm10,%xmm10,%xmm10
           2cf1:	vxorps %xmm11,%xmm11,%xmm11
           2cf6:	vxorps %xmm12,%xmm12,%xmm12
           2cfb:	vxorps %xmm13,%xmm13,%xmm13
           2d00:	vxorps %xmm14,%xmm14,%xmm14
           2d05:	vxorps %xmm15,%xmm15,%xmm15
           2d0a:	vxorps %xmm17,%xmm17,%xmm17
           2d10:	vxorps %xmm18,%xmm18,%xmm18
           2d16:	vxorps %xmm19,%xmm19,%xmm19
           2d1c:	vxorps %xmm20,%xmm20,%xmm20
           2d22:	vxorps %xmm21,%xmm21,%xmm21
           2d28:	vxorps %xmm22,%xmm22,%xmm22
           2d2e:	vxorps %xmm23,%xmm23,%xmm23
           2d34:	lea    (%r8,%r9,1),%rdi
           2d38:	lea    0x400(%r8,%r9,1),%r9
           2d40:	lea    -0x1(%rcx),%r11
           2d44:	mov    $0x2,%ecx
           2d49:	cmp    $0x6,%r11
           2d4d:	mov    0x18(%rsp),%r11
           2d52:	cmovb  %rcx,%rbx
           2d56:	mov    $0x0,%ecx
           2d5b:	mov    %rbx,%r12
           2d5e:	shl    $0x7,%r12
           2d62:	shl    $0x10,%r11
           2d66:	add    %r12,%r11
           2d69:	cmp    $0x2,%rbx
           2d6d:	mov    %r15,%rbx
           2d70:	cmovge %rcx,%r11
           2d74:	shl    $0x10,%rbx
           2d78:	add    0x28(%rsp),%rbx
           2d7d:	xor    %r12d,%r12d
           2d80:	mov    %r12,%rcx
           2d83:	shl    $0x8,%rcx
           2d87:	vbroadcastss (%rdi,%r12,4),%zmm24
           2d8e:	vbroadcastss (%r9,%r12,4),%zmm25
           2d95:	vbroadcastss 0x400(%r9,%r12,4),%zmm26
           2da0:	vbroadcastss 0x800(%r9,%r12,4),%zmm27
           2dab:	inc    %r12
           2dae:	vmovups (%rbx,%rcx,1),%zmm28
           2db5:	vmovups 0x40(%rbx,%rcx,1),%zmm29
           2dbd:	vmovups 0x80(%rbx,%rcx,1),%zmm30
           2dc5:	vmovups 0xc0(%rbx,%rcx,1),%zmm31
           2dcd:	lea    (%rbx,%rcx,1),%r14
           2dd1:	prefetcht1 (%r11,%r14,1)
           2dd6:	prefetcht1 0x40(%r11,%r14,1)
           2ddc:	vfmadd231ps %zmm28,%zmm24,%zmm0
           2de2:	vfmadd231ps %zmm28,%zmm25,%zmm11
           2de8:	vfmadd231ps %zmm28,%zmm26,%zmm15
           2dee:	vfmadd231ps %zmm28,%zmm27,%zmm20
           2df4:	vfmadd231ps %zmm29,%zmm24,%zmm1
           2dfa:	vfmadd231ps %zmm29,%zmm25,%zmm12
           2e00:	vfmadd231ps %zmm29,%zmm26,%zmm17
           2e06:	vfmadd231ps %zmm29,%zmm27,%zmm21
           2e0c:	vfmadd231ps %zmm30,%zmm24,%zmm9
           2e12:	vfmadd231ps %zmm30,%zmm25,%zmm13
           2e18:	vfmadd231ps %zmm30,%zmm26,%zmm18
           2e1e:	vfmadd231ps %zmm30,%zmm27,%zmm22
           2e24:	vfmadd231ps %zmm24,%zmm31,%zmm10
           2e2a:	vfmadd231ps %zmm25,%zmm31,%zmm14
           2e30:	vfmadd231ps %zmm26,%zmm31,%zmm19
           2e36:	vfmadd231ps %zmm31,%zmm27,%zmm23
           2e3c:	cmp    $0x100,%r12
           2e43:	jl     2d80 <lstm_workspace_bytes-0xb70>
           2e49:	vmovaps %zmm0,0x100(%rsp)
           2e51:	vmovaps %zmm1,0x140(%rsp)
           2e59:	vmovaps %zmm9,0x180(%rsp)
           2e61:	vmovaps %zmm10,0x1c0(%rsp)
           2e69:	vmovaps %zmm11,0x200(%rsp)
           2e71:	vmovaps %zmm12,0x240(%rsp)
           2e79:	vmovaps %zmm13,0x280(%rsp)
           2e81:	vmovaps %zmm14,0x2c0(%rsp)
           2e89:	vmovaps %zmm15,0x300(%rsp)
           2e91:	vmovaps %zmm17,0x340(%rsp)
           2e99:	vmovaps %zmm18,0x380(%rsp)
           2ea1:	vmovaps %zmm19,0x3c0(%rsp)
           2ea9:	vmovaps %zmm20,0x400(%rsp)
           2eb1:	vmovaps %zmm21,0x440(%rsp)
           2eb9:	vmovaps %zmm22,0x480(%rsp)
           2ec1:	vmovaps %zmm23,0x4c0(%rsp)
           2ec9:	jmp    358f <lstm_workspace_bytes-0x361>
           2ece:	xchg   %ax,%ax
           2ed0:	mov    0x10(%rsp),%rcx
           2ed5:	mov    %rsi,%r9
           2ed8:	shl    $0xa,%r9
           2edc:	mov    %rdx,%rbx
           2edf:	vxorps %xmm0,%xmm0,%xmm0
           2ee3:	vxorps %xmm1,%xmm1,%xmm1
           2ee7:	vxorps %xmm9,%xmm9,%xmm9
           2eec:	vxorps %xmm10,%xmm10,%xmm10
           2ef1:	vxorps %xmm11,%xmm11,%xmm11
           2ef6:	vxorps %xmm12,%xmm12,%xmm12
           2efb:	vxorps %xmm13,%xmm13,%xmm13
           2f00:	vxorps %xmm14,%xmm14,%xmm14
           2f05:	vxorps %xmm15,%xmm15,%xmm15
           2f0a:	vxorps %xmm17,%xmm17,%xmm17
           2f10:	vxorps %xmm18,%xmm18,%xmm18
           2f16:	vxorps %xmm19,%xmm19,%xmm19
           2f1c:	vxorps %xmm20,%xmm20,%xmm20
           2f22:	vxorps %xmm21,%xmm21,%xmm21
           2f28:	vxorps %xmm22,%xmm22,%xmm22
           2f2e:	vxorps %xmm23,%xmm23,%xmm23
           2f34:	vxorps %xmm24,%xmm24,%xmm24
           2f3a:	vxorps %xmm25,%xmm25,%xmm25
           2f40:	vxorps %xmm26,%xmm26,%xmm26
           2f46:	vxorps %xmm27,%xmm27,%xmm27
           2f4c:	lea    0x400(%r8,%r9,1),%rdi
           2f54:	add    %r8,%r9
           2f57:	lea    -0x1(%rcx),%r11
           2f5b:	mov    $0x2,%ecx
           2f60:	cmp    $0x6,%r11
           2f64:	mov    0x18(%rsp),%r11
           2f69:	cmovb  %rcx,%rbx
           2f6d:	mov    $0x0,%ecx
           2f72:	mov    %rbx,%r12
           2f75:	shl    $0x7,%r12
           2f79:	shl    $0x10,%r11
           2f7d:	add    %r12,%r11
           2f80:	cmp    $0x2,%rbx
           2f84:	mov    %r15,%rbx
           2f87:	cmovge %rcx,%r11
           2f8b:	shl    $0x10,%rbx
           2f8f:	add    0x28(%rsp),%rbx
           2f94:	xor    %r12d,%r12d
           2f97:	nopw   0x0(%rax,%rax,1)
           2fa0:	mov    %r12,%rcx
  0.53     2fa3:	shl    $0x8,%rcx
           2fa7:	vbroadcastss (%rdi,%r12,4),%zmm5
  0.40     2fae:	vbroadcastss 0x400(%rdi,%r12,4),%zmm2
  0.94     2fb9:	vbroadcastss (%r9,%r12,4),%zmm30
  0.67     2fc0:	vmovups (%rbx,%rcx,1),%zmm28
  0.40     2fc7:	vmovups 0x40(%rbx,%rcx,1),%zmm29
  0.40     2fcf:	vmovups 0x80(%rbx,%rcx,1),%zmm31
  0.80     2fd7:	vmovups 0xc0(%rbx,%rcx,1),%zmm4
  1.07     2fdf:	lea    (%rbx,%rcx,1),%r14
  0.67     2fe3:	prefetcht1 (%r11,%r14,1)
  0.94     2fe8:	prefetcht1 0x40(%r11,%r14,1)
  0.94     2fee:	vfmadd231ps %zmm28,%zmm5,%zmm11
  1.60     2ff4:	vfmadd231ps %zmm29,%zmm5,%zmm12
  1.20     2ffa:	vfmadd231ps %zmm31,%zmm5,%zmm13
  1.20     3000:	vfmadd231ps %zmm5,%zmm4,%zmm14
  0.94     3006:	vbroadcastss 0x800(%rdi,%r12,4),%zmm5
  0.67     3011:	vfmadd231ps %zmm28,%zmm2,%zmm15
  1.07     3017:	vfmadd231ps %zmm29,%zmm2,%zmm17
  1.07     301d:	vfmadd231ps %zmm31,%zmm2,%zmm18
  0.67     3023:	vfmadd231ps %zmm2,%zmm4,%zmm19
  1.20     3029:	vbroadcastss 0xc00(%rdi,%r12,4),%zmm2
  0.94     3034:	vfmadd231ps %zmm28,%zmm30,%zmm0
  1.07     303a:	vfmadd231ps %zmm29,%zmm30,%zmm1
  1.34     3040:	vfmadd231ps %zmm31,%zmm30,%zmm9
  1.20     3046:	vfmadd231ps %zmm30,%zmm4,%zmm10
  1.07     304c:	inc    %r12
  0.53     304f:	vfmadd231ps %zmm28,%zmm5,%zmm20
  1.20     3055:	vfmadd231ps %zmm29,%zmm5,%zmm21
  1.07     305b:	vfmadd231ps %zmm31,%zmm5,%zmm22
  0.94     3061:	vfmadd231ps %zmm5,%zmm4,%zmm23
  1.20     3067:	vfmadd231ps %zmm28,%zmm2,%zmm24
  0.53     306d:	vfmadd231ps %zmm29,%zmm2,%zmm25
  0.67     3073:	vfmadd231ps %zmm31,%zmm2,%zmm26
  0.27     3079:	vfmadd231ps %zmm4,%zmm2,%zmm27
  0.27     307f:	cmp    $0x100,%r12
  0.67     3086:	jl     2fa0 <lstm_workspace_bytes-0x950>
           308c:	vmovaps %zmm0,0x100(%rsp)
           3094:	vmovaps %zmm1,0x140(%rsp)
           309c:	vmovaps %zmm9,0x180(%rsp)
           30a4:	vmovaps %zmm10,0x1c0(%rsp)
           30ac:	vmovaps %zmm11,0x200(%rsp)
           30b4:	vmovaps %zmm12,0x240(%rsp)
           30bc:	vmovaps %zmm13,0x280(%rsp)
           30c4:	vmovaps %zmm14,0x2c0(%rsp)
           30cc:	vmovaps %zmm15,0x300(%rsp)
           30d4:	vmovaps %zmm17,0x340(%rsp)
           30dc:	vmovaps %zmm18,0x380(%rsp)
           30e4:	vmovaps %zmm19,0x3c0(%rsp)
           30ec:	vmovaps %zmm20,0x400(%rsp)
           30f4:	vmovaps %zmm21,0x440(%rsp)
           30fc:	vmovaps %zmm22,0x480(%rsp)
           3104:	vmovaps %zmm23,0x4c0(%rsp)
           310c:	vmovaps %zmm24,0x500(%rsp)
           3114:	vmovaps %zmm25,0x540(%rsp)
           311c:	vmovaps %zmm26,0x580(%rsp)
           3124:	vmovaps %zmm27,0x5c0(%rsp)
           312c:	jmp    358f <lstm_workspace_bytes-0x361>
           3131:	mov    0x10(%rsp),%rcx
           3136:	mov    %rsi,%r9
           3139:	shl    $0xa,%r9
           313d:	mov    %rdx,%rbx
           3140:	vxorps %xmm0,%xmm0,%xmm0
           3144:	vxorps %xmm1,%xmm1,%xmm1
           3148:	vxorps %xmm9,%xmm9,%xmm9
           314d:	vxorps %xmm10,%xmm10,%xmm10
           3152:	vxorps %xmm11,%xmm11,%xmm11
           3157:	vxorps %xmm12,%xmm12,%xmm12
           315c:	vxorps %xmm13,%xmm13,%xmm13
           3161:	vxorps %xmm14,%xmm14,%xmm14
           3166:	vxorps %xmm15,%xmm15,%xmm15
           316b:	vxorps %xmm17,%xmm17,%xmm17
           3171:	vxorps %xmm18,%xmm18,%xmm18
           3177:	vxorps %xmm19,%xmm19,%xmm19
           317d:	lea    (%r8,%r9,1),%rdi
           3181:	lea    0x400(%r8,%r9,1),%r9
           3189:	lea    -0x1(%rcx),%r11
           318d:	mov    $0x2,%ecx
           3192:	cmp    $0x6,%r11
           3196:	mov    0x18(%rsp),%r11
           319b:	cmovb  %rcx,%rbx
           319f:	mov    $0x0,%ecx
           31a4:	mov    %rbx,%r12
           31a7:	shl    $0x7,%r12
           31ab:	shl    $0x10,%r11
           31af:	add    %r12,%r11
           31b2:	cmp    $0x2,%rbx
           31b6:	mov    %r15,%rbx
           31b9:	cmovge %rcx,%r11
           31bd:	shl    $0x10,%rbx
           31c1:	add    0x28(%rsp),%rbx
           31c6:	xor    %r12d,%r12d
           31c9:	nopl   0x0(%rax)
           31d0:	mov    %r12,%rcx
           31d3:	shl    $0x8,%rcx
           31d7:	vbroadcastss (%rdi,%r12,4),%zmm20
           31de:	vbroadcastss (%r9,%r12,4),%zmm21
           31e5:	vbroadcastss 0x400(%r9,%r12,4),%zmm22
           31f0:	inc    %r12
           31f3:	vmovups (%rbx,%rcx,1),%zmm23
           31fa:	vmovups 0x40(%rbx,%rcx,1),%zmm24
           3202:	vmovups 0x80(%rbx,%rcx,1),%zmm25
           320a:	vmovups 0xc0(%rbx,%rcx,1),%zmm26
           3212:	lea    (%rbx,%rcx,1),%r14
           3216:	prefetcht1 (%r11,%r14,1)
           321b:	prefetcht1 0x40(%r11,%r14,1)
           3221:	vfmadd231ps %zmm23,%zmm20,%zmm0
           3227:	vfmadd231ps %zmm23,%zmm21,%zmm11
           322d:	vfmadd231ps %zmm23,%zmm22,%zmm15
           3233:	vfmadd231ps %zmm24,%zmm20,%zmm1
           3239:	vfmadd231ps %zmm24,%zmm21,%zmm12
           323f:	vfmadd231ps %zmm24,%zmm22,%zmm17
           3245:	vfmadd231ps %zmm25,%zmm20,%zmm9
           324b:	vfmadd231ps %zmm25,%zmm21,%zmm13
           3251:	vfmadd231ps %zmm25,%zmm22,%zmm18
           3257:	vfmadd231ps %zmm20,%zmm26,%zmm10
           325d:	vfmadd231ps %zmm21,%zmm26,%zmm14
           3263:	vfmadd231ps %zmm26,%zmm22,%zmm19
           3269:	cmp    $0x100,%r12
           3270:	jl     31d0 <lstm_workspace_bytes-0x720>
           3276:	vmovaps %zmm0,0x100(%rsp)
           327e:	vmovaps %zmm1,0x140(%rsp)
           3286:	vmovaps %zmm9,0x180(%rsp)
           328e:	vmovaps %zmm10,0x1c0(%rsp)
           3296:	vmovaps %zmm11,0x200(%rsp)
           329e:	vmovaps %zmm12,0x240(%rsp)
           32a6:	vmovaps %zmm13,0x280(%rsp)
           32ae:	vmovaps %zmm14,0x2c0(%rsp)
           32b6:	vmovaps %zmm15,0x300(%rsp)
           32be:	vmovaps %zmm17,0x340(%rsp)
           32c6:	vmovaps %zmm18,0x380(%rsp)
           32ce:	vmovaps %zmm19,0x3c0(%rsp)
           32d6:	jmp    35c1 <lstm_workspace_bytes-0x32f>
           32db:	mov    0x10(%rsp),%rcx
           32e0:	mov    %rsi,%rdi
           32e3:	shl    $0xa,%rdi
           32e7:	mov    %rdx,%rbx
           32ea:	vxorps %xmm17,%xmm17,%xmm17
           32f0:	vxorps %xmm18,%xmm18,%xmm18
           32f6:	vxorps %xmm19,%xmm19,%xmm19
           32fc:	vxorps %xmm20,%xmm20,%xmm20
           3302:	vxorps %xmm21,%xmm21,%xmm21
           3308:	vxorps %xmm22,%xmm22,%xmm22
           330e:	vxorps %xmm23,%xmm23,%xmm23
           3314:	vxorps %xmm24,%xmm24,%xmm24
           331a:	vxorps %xmm25,%xmm25,%xmm25
           3320:	vxorps %xmm26,%xmm26,%xmm26
           3326:	vxorps %xmm27,%xmm27,%xmm27
           332c:	vxorps %xmm28,%xmm28,%xmm28
           3332:	vxorps %xmm29,%xmm29,%xmm29
           3338:	vxorps %xmm30,%xmm30,%xmm30
           333e:	vxorps %xmm31,%xmm31,%xmm31
           3344:	vxorps %xmm9,%xmm9,%xmm9
           3349:	vxorps %xmm10,%xmm10,%xmm10
           334e:	vxorps %xmm12,%xmm12,%xmm12
           3353:	vxorps %xmm13,%xmm13,%xmm13
           3358:	vxorps %xmm15,%xmm15,%xmm15
           335d:	vxorps %xmm11,%xmm11,%xmm11
           3362:	vxorps %xmm14,%xmm14,%xmm14
           3367:	vxorps %xmm0,%xmm0,%xmm0
           336b:	vxorps %xmm1,%xmm1,%xmm1
           336f:	lea    (%r8,%rdi,1),%r9
           3373:	lea    0x400(%r8,%rdi,1),%r11
           337b:	lea    -0x1(%rcx),%rdi
           337f:	mov    $0x2,%ecx
           3384:	cmp    $0x6,%rdi
           3388:	mov    0x18(%rsp),%rdi
           338d:	cmovb  %rcx,%rbx
           3391:	mov    $0x0,%ecx
           3396:	mov    %rbx,%r12
           3399:	shl    $0x7,%r12
           339d:	shl    $0x10,%rdi
           33a1:	add    %r12,%rdi
           33a4:	cmp    $0x2,%rbx
           33a8:	mov    %r15,%rbx
           33ab:	cmovge %rcx,%rdi
           33af:	shl    $0x10,%rbx
           33b3:	add    0x28(%rsp),%rbx
           33b8:	xor    %r12d,%r12d
           33bb:	nopl   0x0(%rax,%rax,1)
           33c0:	mov    %r12,%rcx
  0.13     33c3:	shl    $0x8,%rcx
           33c7:	vbroadcastss (%r9,%r12,4),%zmm2
  0.27     33ce:	vmovups (%rbx,%rcx,1),%zmm4
  0.40     33d5:	vmovups 0x40(%rbx,%rcx,1),%zmm5
  1.07     33dd:	vmovups 0x80(%rbx,%rcx,1),%zmm6
  0.67     33e5:	vmovups 0xc0(%rbx,%rcx,1),%zmm8
  0.27     33ed:	lea    (%rbx,%rcx,1),%r14
           33f1:	prefetcht1 (%rdi,%r14,1)
  0.13     33f6:	prefetcht1 0x40(%rdi,%r14,1)
  0.40     33fc:	vfmadd231ps %zmm4,%zmm2,%zmm17
  0.80     3402:	vfmadd231ps %zmm5,%zmm2,%zmm18
  0.67     3408:	vfmadd231ps %zmm6,%zmm2,%zmm19
  0.40     340e:	vfmadd231ps %zmm2,%zmm8,%zmm20
  1.34     3414:	vbroadcastss (%r11,%r12,4),%zmm2
  0.27     341b:	vfmadd231ps %zmm4,%zmm2,%zmm21
  0.13     3421:	vfmadd231ps %zmm5,%zmm2,%zmm22
  0.27     3427:	vfmadd231ps %zmm6,%zmm2,%zmm23
  0.53     342d:	vfmadd231ps %zmm2,%zmm8,%zmm24
  0.67     3433:	vbroadcastss 0x400(%r11,%r12,4),%zmm2
  0.27     343e:	vfmadd231ps %zmm4,%zmm2,%zmm25
  1.07     3444:	vfmadd231ps %zmm5,%zmm2,%zmm26
  0.40     344a:	vfmadd231ps %zmm6,%zmm2,%zmm27
           3450:	vfmadd231ps %zmm2,%zmm8,%zmm28
           3456:	vbroadcastss 0x800(%r11,%r12,4),%zmm2
  0.13     3461:	vfmadd231ps %zmm4,%zmm2,%zmm29
  0.53     3467:	vfmadd231ps %zmm5,%zmm2,%zmm30
  1.60     346d:	vfmadd231ps %zmm6,%zmm2,%zmm31
  0.67     3473:	vfmadd231ps %zmm2,%zmm8,%zmm9
  0.27     3479:	vbroadcastss 0xc00(%r11,%r12,4),%zmm2
  0.80     3484:	vfmadd231ps %zmm4,%zmm2,%zmm10
  0.40     348a:	vfmadd231ps %zmm5,%zmm2,%zmm12
  0.40     3490:	vfmadd231ps %zmm6,%zmm2,%zmm13
           3496:	vfmadd231ps %zmm2,%zmm8,%zmm15
  0.40     349c:	vbroadcastss 0x1000(%r11,%r12,4),%zmm2
  0.40     34a7:	inc    %r12
  0.13     34aa:	vfmadd231ps %zmm4,%zmm2,%zmm11
  0.80     34b0:	vfmadd231ps %zmm5,%zmm2,%zmm14
  0.27     34b6:	vfmadd231ps %zmm6,%zmm2,%zmm0
           34bc:	vfmadd231ps %zmm8,%zmm2,%zmm1
  0.13     34c2:	cmp    $0x100,%r12
           34c9:	jl     33c0 <lstm_workspace_bytes-0x530>
           34cf:	vmovaps %zmm17,0x100(%rsp)
           34d7:	vmovaps %zmm18,0x140(%rsp)
           34df:	vmovaps %zmm19,0x180(%rsp)
           34e7:	vmovaps %zmm20,0x1c0(%rsp)
           34ef:	vmovaps %zmm21,0x200(%rsp)
  0.13     34f7:	vmovaps %zmm22,0x240(%rsp)
           34ff:	vmovaps %zmm23,0x280(%rsp)
  0.13     3507:	vmovaps %zmm24,0x2c0(%rsp)
           350f:	vmovaps %zmm25,0x300(%rsp)
  0.13     3517:	vmovaps %zmm26,0x340(%rsp)
           351f:	vmovaps %zmm27,0x380(%rsp)
           3527:	vmovaps %zmm28,0x3c0(%rsp)
           352f:	vmovaps %zmm29,0x400(%rsp)
           3537:	vmovaps %zmm30,0x440(%rsp)
           353f:	vmovaps %zmm31,0x480(%rsp)
           3547:	vmovaps %zmm9,0x4c0(%rsp)
           354f:	vmovaps %zmm10,0x500(%rsp)
           3557:	vmovaps %zmm12,0x540(%rsp)
           355f:	vmovaps %zmm13,0x580(%rsp)
           3567:	vmovaps %zmm15,0x5c0(%rsp)
           356f:	vmovaps %zmm11,0x600(%rsp)
           3577:	vmovaps %zmm14,0x640(%rsp)
           357f:	vmovaps %zmm0,0x680(%rsp)
           3587:	vmovaps %zmm1,0x6c0(%rsp)
           358f:	vbroadcastss 0x201ae7(%rip),%zmm28        # 205080 <lstm_supported+0x2014e0>
  0.13     3599:	vbroadcastss 0x201ae1(%rip),%zmm29        # 205084 <lstm_supported+0x2014e4>
           35a3:	vbroadcastss 0x201adb(%rip),%zmm30        # 205088 <lstm_supported+0x2014e8>
           35ad:	vbroadcastss 0x201ad9(%rip),%zmm31        # 205090 <lstm_supported+0x2014f0>
           35b7:	vbroadcastss 0x201ad3(%rip),%zmm27        # 205094 <lstm_supported+0x2014f4>
           35c1:	vbroadcastss 0x201acd(%rip),%zmm22        # 205098 <lstm_supported+0x2014f8>
           35cb:	vbroadcastss 0x201acb(%rip),%zmm23        # 2050a0 <lstm_supported+0x201500>
           35d5:	vbroadcastss 0x201ac5(%rip),%zmm24        # 2050a4 <lstm_supported+0x201504>
           35df:	vbroadcastss 0x201abf(%rip),%zmm25        # 2050a8 <lstm_supported+0x201508>
           35e9:	vbroadcastss 0x201ab9(%rip),%zmm26        # 2050ac <lstm_supported+0x20150c>
           35f3:	vbroadcastss 0x201ab3(%rip),%zmm21        # 2050b0 <lstm_supported+0x201510>
           35fd:	vbroadcastss 0x201ab1(%rip),%zmm17        # 2050b8 <lstm_supported+0x201518>
           3607:	vbroadcastss 0x201aa3(%rip),%zmm18        # 2050b4 <lstm_supported+0x201514>
           3611:	vbroadcastss 0x201aa1(%rip),%zmm19        # 2050bc <lstm_supported+0x20151c>
           361b:	mov    0x98(%rsp),%r14
           3623:	mov    0x90(%rsp),%rdi
           362b:	mov    0x88(%rsp),%r12
           3633:	add    %rax,%r10
           3636:	test   %r10,%r10
           3639:	jle    2b40 <lstm_workspace_bytes-0xdb0>
           363f:	xor    %ebx,%ebx
           3641:	data16 data16 data16 data16 data16 cs nopw 0x0(%rax,%rax,1)
           3650:	mov    %rbx,%rcx
           3653:	shl    $0x8,%rcx
           3657:	mov    %r15,%r11
           365a:	shl    $0x8,%r11
           365e:	lea    (%rsi,%rbx,1),%r9
           3662:	inc    %rbx
           3665:	vmovups 0x100(%rsp,%rcx,1),%zmm0
           366d:	shl    $0xc,%r9
  0.13     3671:	vaddps (%rdi,%r11,1),%zmm0,%zmm0
           3678:	add    %r12,%r9
           367b:	vmovups %zmm0,(%r11,%r9,1)
           3682:	vmovups 0x140(%rsp,%rcx,1),%zmm0
           368a:	vaddps 0x40(%rdi,%r11,1),%zmm0,%zmm0
  0.27     3692:	vmovups %zmm0,0x40(%r11,%r9,1)
           369a:	vmovups 0x180(%rsp,%rcx,1),%zmm0
           36a2:	vaddps 0x80(%rdi,%r11,1),%zmm0,%zmm0
           36aa:	vmovups %zmm0,0x80(%r11,%r9,1)
           36b2:	vmovups 0x1c0(%rsp,%rcx,1),%zmm0
           36ba:	vaddps 0xc0(%rdi,%r11,1),%zmm0,%zmm0
           36c2:	vmovups %zmm0,0xc0(%r11,%r9,1)
  0.13     36ca:	cmp    %r10,%rbx
           36cd:	jl     3650 <lstm_workspace_bytes-0x2a0>
           36cf:	jmp    2b40 <lstm_workspace_bytes-0xdb0>
           36d4:	shl    $0x8,%r14
           36d8:	xor    %eax,%eax
           36da:	sar    $0x4,%r14
           36de:	test   %r14,%r14
           36e1:	jle    374b <lstm_workspace_bytes-0x1a5>
           36e3:	mov    0xb8(%rsp),%rdx
           36eb:	mov    0x40(%rsp),%rsi
           36f0:	mov    0xb0(%rsp),%rdi
           36f8:	mov    0xa8(%rsp),%r8
           3700:	mov    0xa0(%rsp),%r9
           3708:	nopl   0x0(%rax,%rax,1)
           3710:	mov    %rax,%rcx
           3713:	shl    $0x6,%rcx
           3717:	inc    %rax
           371a:	vmovups (%r15,%rcx,1),%zmm0
           3721:	vmovups (%rsi,%rcx,1),%zmm1
           3728:	vmovups %zmm0,(%rdx,%rcx,1)
           372f:	vmovups %zmm0,(%r8,%rcx,1)
           3736:	vmovups %zmm1,(%rdi,%rcx,1)
           373d:	vmovups %zmm1,(%r9,%rcx,1)
           3744:	cmp    %r14,%rax
           3747:	jl     3710 <lstm_workspace_bytes-0x1e0>
           3749:	xor    %eax,%eax
           374b:	lea    -0x28(%rbp),%rsp
           374f:	pop    %rbx
           3750:	pop    %r12
           3752:	pop    %r13
           3754:	pop    %r14
           3756:	pop    %r15
           3758:	pop    %rbp
           3759:	vzeroupper
           375c:	ret
           375d:	nopl   (%rax)
           3760:	push   %rbp
           3761:	push   %r15
           3763:	push   %r14
           3765:	push   %r13
           3767:	push   %r12
           3769:	push   %rbx
           376a:	sub    $0x68,%rsp
           376e:	cmp    $0x2,%r8
           3772:	mov    $0x1,%eax
           3777:	mov    %rdx,%rbx
           377a:	mov    $0x1,%edx
           377f:	mov    %r8,%r11
           3782:	cmovge %r8,%rax
           3786:	cmp    $0x2,%r9
           378a:	cmovge %r9,%rdx
           378e:	mul    %rdx
           3791:	seto   %r10b
           3795:	or     %r9,%r11
           3798:	mov    %rax,%rdx
           379b:	mov    $0x2,%eax
           37a0:	cmp    $0x7fffffff,%r11
           37a7:	ja     388f <lstm_workspace_bytes-0x61>
           37ad:	test   %r10b,%r10b
           37b0:	jne    388f <lstm_workspace_bytes-0x61>
           37b6:	movabs $0x10000000001,%r10
           37c0:	cmp    %r10,%rdx
           37c3:	jae    388f <lstm_workspace_bytes-0x61>
           37c9:	test   %rsi,%rsi
           37cc:	sete   %al
           37cf:	test   %rbx,%rbx
           37d2:	sete   %dl
           37d5:	or     %al,%dl
           37d7:	test   %rcx,%rcx
           37da:	sete   %al
           37dd:	or     %dl,%al
           37df:	mov    $0x1,%eax
           37e4:	jne    388f <lstm_workspace_bytes-0x61>
           37ea:	mov    %r9,%rax
           37ed:	shl    $0xb,%rax
           37f1:	mov    %r9,%rbp
           37f4:	shl    $0xa,%rbp
           37f8:	lea    0x10(%rsp),%rdx
           37fd:	mov    %rcx,0x10(%rsp)
           3802:	mov    %rdi,%r15
           3805:	mov    %rsi,0x8(%rsp)
           380a:	mov    %rcx,%r14
           380d:	mov    %r8,%r12
           3810:	mov    %r9,%r13
           3813:	lea    0x40(%rcx,%rax,1),%r10
           3818:	add    %rcx,%rbp
           381b:	lea    0x38(%rsp),%rax
           3820:	mov    %rbp,0x18(%rsp)
           3825:	mov    %rax,%rsi
           3828:	mov    %r10,%rcx
           382b:	mov    %r10,(%rsp)
           382f:	call   1000 <lstm_workspace_bytes-0x28f0>
           3834:	mov    0x8(%rsp),%rsi
           3839:	mov    %eax,%ecx
           383b:	mov    $0x1,%eax
           3840:	test   %ecx,%ecx
           3842:	jne    388f <lstm_workspace_bytes-0x61>
           3844:	mov    (%rsi),%rax
           3847:	mov    (%rsp),%rcx
           384b:	lea    0x20(%rsp),%rsi
           3850:	lea    0x40(%rsp),%rdx
           3855:	mov    %r15,%rdi
           3858:	mov    %r12,%r8
           385b:	mov    %r13,%r9
           385e:	mov    %rax,0x20(%rsp)
           3863:	mov    %r14,0x28(%rsp)
           3868:	mov    %rbp,0x30(%rsp)
           386d:	vmovups (%rbx),%xmm0
           3871:	mov    0x10(%rbx),%rax
           3875:	vmovups %xmm0,0x40(%rsp)
           387b:	mov    %rax,0x50(%rsp)
           3880:	vxorps %xmm0,%xmm0,%xmm0
           3884:	vmovups %xmm0,0x58(%rsp)
           388a:	call   1080 <lstm_workspace_bytes-0x2870>
           388f:	add    $0x68,%rsp
           3893:	pop    %rbx
           3894:	pop    %r12
           3896:	pop    %r13
           3898:	pop    %r14
           389a:	pop    %r15
           389c:	pop    %rbp
           389d:	ret
           389e:	xchg   %ax,%ax
           38a0:	mov    %r8,%rax
           38a3:	shr    $0x1f,%rax
           38a7:	mov    $0x2,%eax
           38ac:	jne    38eb <lstm_workspace_bytes-0x5>
           38ae:	mov    $0x1,%eax
           38b3:	test   %rsi,%rsi
           38b6:	je     38eb <lstm_workspace_bytes-0x5>
           38b8:	test   %rdx,%rdx
           38bb:	je     38eb <lstm_workspace_bytes-0x5>
           38bd:	sub    $0x18,%rsp
           38c1:	mov    %r8,%rax
           38c4:	shl    $0xa,%rax
           38c8:	lea    0x10(%rsp),%rsi
           38cd:	mov    %r8,%r9
           38d0:	mov    %rdx,(%rsp)
           38d4:	xor    %r8d,%r8d
           38d7:	add    %rdx,%rax
           38da:	mov    %rsp,%rdx
           38dd:	mov    %rax,0x8(%rsp)
           38e2:	call   1000 <lstm_workspace_bytes-0x28f0>
           38e7:	add    $0x18,%rsp
           38eb:	ret
           38ec:	nopl   0x0(%rax)
       
       00000000000038f0 <lstm_workspace_bytes>:
           38f0:	cmp    $0x2,%rdi
           38f4:	mov    $0x1,%eax
           38f9:	lea    (%rsi,%rsi,8),%rcx
           38fd:	mov    $0x1,%edx
           3902:	movabs $0x10000000000,%r8
           390c:	cmovge %rdi,%rax
           3910:	cmp    $0x2,%rsi
           3914:	cmovge %rsi,%rdx
           3918:	shl    $0xa,%rcx
           391c:	add    $0x18040,%rcx
           3923:	mul    %rdx
           3926:	seto   %dl
           3929:	cmp    %r8,%rax
           392c:	mov    $0xffffffffffffffff,%r8
           3933:	cmova  %r8,%rcx
           3937:	test   %dl,%dl
           3939:	cmovne %r8,%rcx
           393d:	or     %rsi,%rdi
           3940:	cmp    $0x7fffffff,%rdi
           3947:	cmova  %r8,%rcx
           394b:	mov    %rcx,%rax
           394e:	ret
           394f:	nop
       
       0000000000003950 <lstm_state_bytes>:
           3950:	mov    %rdi,%rcx
           3953:	shl    $0xb,%rcx
           3957:	mov    $0xffffffffffffffff,%rax
           395e:	or     $0x40,%rcx
           3962:	cmp    $0x7fffffff,%rdi
           3969:	cmovbe %rcx,%rax
           396d:	ret
           396e:	xchg   %ax,%ax
       
       0000000000003970 <lstm_metadata>:
           3970:	lea    0x201779(%rip),%rax        # 2050f0 <lstm_supported+0x201550>
           3977:	ret
           3978:	nopl   0x0(%rax,%rax,1)
       
       0000000000003980 <lstm_run>:
           3980:	mov    %r8,%r9
           3983:	mov    %rcx,%r8
           3986:	mov    %rdx,%rcx
           3989:	mov    %rsi,%rdx
           398c:	mov    %rdi,%rsi
           398f:	lea    0x66a(%rip),%rdi        # 4000 <lstm_supported+0x460>
           3996:	jmp    3760 <lstm_workspace_bytes-0x190>
           399b:	nopl   0x0(%rax,%rax,1)
       
       00000000000039a0 <lstm_step>:
           39a0:	cmp    $0x2,%r8
           39a4:	mov    $0x1,%eax
           39a9:	mov    %rdx,%r10
           39ac:	mov    $0x1,%edx
           39b1:	mov    %r8,%r11
           39b4:	cmovge %r8,%rax
           39b8:	cmp    $0x2,%r9
           39bc:	cmovge %r9,%rdx
           39c0:	mul    %rdx
           39c3:	seto   %dl
           39c6:	or     %r9,%r11
           39c9:	cmp    $0x7fffffff,%r11
           39d0:	ja     3a4c <lstm_step+0xac>
           39d2:	test   %dl,%dl
           39d4:	jne    3a4c <lstm_step+0xac>
           39d6:	movabs $0x10000000001,%rdx
           39e0:	cmp    %rdx,%rax
           39e3:	jae    3a4c <lstm_step+0xac>
           39e5:	test   %rdi,%rdi
           39e8:	je     3a52 <lstm_step+0xb2>
           39ea:	test   %rsi,%rsi
           39ed:	je     3a52 <lstm_step+0xb2>
           39ef:	test   %r10,%r10
           39f2:	je     3a52 <lstm_step+0xb2>
           39f4:	sub    $0x48,%rsp
           39f8:	mov    (%rdi),%rdx
           39fb:	mov    %r9,%rax
           39fe:	shl    $0xa,%rax
           3a02:	lea    0x5f7(%rip),%rdi        # 4000 <lstm_supported+0x460>
           3a09:	add    %r10,%rax
           3a0c:	mov    %rdx,0x8(%rsp)
           3a11:	mov    %r10,0x10(%rsp)
           3a16:	mov    %rax,0x18(%rsp)
           3a1b:	vmovups (%rsi),%xmm0
           3a1f:	mov    0x10(%rsi),%rdx
           3a23:	lea    0x8(%rsp),%rsi
           3a28:	vmovups %xmm0,0x20(%rsp)
           3a2e:	mov    %rdx,0x30(%rsp)
           3a33:	lea    0x20(%rsp),%rdx
           3a38:	mov    %r10,0x38(%rsp)
           3a3d:	mov    %rax,0x40(%rsp)
           3a42:	call   1080 <lstm_workspace_bytes-0x2870>
           3a47:	add    $0x48,%rsp
           3a4b:	ret
           3a4c:	mov    $0x2,%eax
           3a51:	ret
           3a52:	mov    $0x1,%eax
           3a57:	ret
           3a58:	nopl   0x0(%rax,%rax,1)
       
       0000000000003a60 <lstm_state_init>:
           3a60:	mov    %rcx,%r8
           3a63:	mov    %rdx,%rcx
           3a66:	mov    %rsi,%rdx
           3a69:	mov    %rdi,%rsi
           3a6c:	lea    0x58d(%rip),%rdi        # 4000 <lstm_supported+0x460>
           3a73:	jmp    38a0 <lstm_workspace_bytes-0x50>
           3a78:	nopl   0x0(%rax,%rax,1)
           3a80:	push   %rbx
           3a81:	mov    %edx,%r8d
           3a84:	mov    %edi,%eax
           3a86:	and    $0x80000000,%eax
           3a8b:	xor    %ecx,%ecx
           3a8d:	cpuid
           3a8f:	mov    %eax,%ecx
           3a91:	xor    %eax,%eax
           3a93:	cmp    %ecx,%edi
           3a95:	ja     3ab5 <lstm_state_init+0x55>
           3a97:	cmp    $0x2,%r8d
           3a9b:	mov    %edi,%eax
           3a9d:	mov    %esi,%ecx
           3a9f:	cpuid
           3aa1:	mov    %eax,%esi
           3aa3:	mov    %edx,%eax
           3aa5:	cmove  %ecx,%eax
           3aa8:	cmp    $0x1,%r8d
           3aac:	cmove  %ebx,%eax
           3aaf:	test   %r8d,%r8d
           3ab2:	cmove  %esi,%eax
           3ab5:	pop    %rbx
           3ab6:	ret
           3ab7:	nopw   0x0(%rax,%rax,1)
           3ac0:	push   %rbx
           3ac1:	xor    %ebx,%ebx
           3ac3:	mov    $0x1,%edi
           3ac8:	xor    %esi,%esi
           3aca:	mov    $0x2,%edx
           3acf:	call   3a80 <lstm_state_init+0x20>
           3ad4:	test   $0x8000000,%eax
           3ad9:	je     3ae2 <lstm_state_init+0x82>
           3adb:	xor    %ecx,%ecx
           3add:	xgetbv
           3ae0:	mov    %eax,%ebx
           3ae2:	mov    %rbx,%rax
           3ae5:	pop    %rbx
           3ae6:	ret
           3ae7:	nopw   0x0(%rax,%rax,1)
           3af0:	push   %rbp
           3af1:	push   %r15
           3af3:	push   %r14
           3af5:	push   %r13
           3af7:	push   %r12
           3af9:	push   %rbx
           3afa:	push   %rax
           3afb:	xor    %ebx,%ebx
           3afd:	call   3ac0 <lstm_state_init+0x60>
           3b02:	mov    %rax,%r14
           3b05:	lea    0x201b84(%rip),%r15        # 205690 <lstm_supported+0x201af0>
           3b0c:	mov    $0x75f7fbfe,%r12d
           3b12:	xor    %r13d,%r13d
           3b15:	xor    %eax,%eax
           3b17:	cmp    $0x1e,%r13
           3b1b:	ja     3b75 <lstm_state_init+0x115>
           3b1d:	nopl   (%rax)
           3b20:	mov    %r13,%rbp
           3b23:	shl    $0x5,%rbp
           3b27:	add    %r15,%rbp
           3b2a:	bt     %r13,%r12
           3b2e:	jb     3b3e <lstm_state_init+0xde>
           3b30:	mov    0x0(%rbp),%edi
           3b33:	mov    0x4(%rbp),%esi
           3b36:	mov    0x8(%rbp),%edx
           3b39:	call   3a80 <lstm_state_init+0x20>
           3b3e:	movzbl 0xc(%rbp),%ecx
           3b42:	mov    %rax,%rdx
           3b45:	shr    %cl,%rdx
           3b48:	and    0x10(%rbp),%edx
           3b4b:	cmp    0x14(%rbp),%edx
           3b4e:	jb     3b67 <lstm_state_init+0x107>
           3b50:	mov    0x18(%rbp),%ecx
           3b53:	mov    %r14d,%edx
           3b56:	and    %ecx,%edx
           3b58:	cmp    %ecx,%edx
           3b5a:	jne    3b67 <lstm_state_init+0x107>
           3b5c:	inc    %r13
           3b5f:	cmp    $0x1e,%r13
           3b63:	jbe    3b20 <lstm_state_init+0xc0>
           3b65:	jmp    3b75 <lstm_state_init+0x115>
           3b67:	movslq 0x1c(%rbp),%rax
           3b6b:	lea    0x201efe(%rip),%rbx        # 205a70 <lstm_supported+0x201ed0>
           3b72:	add    %rax,%rbx
           3b75:	mov    %rbx,%rax
           3b78:	add    $0x8,%rsp
           3b7c:	pop    %rbx
           3b7d:	pop    %r12
           3b7f:	pop    %r13
           3b81:	pop    %r14
           3b83:	pop    %r15
           3b85:	pop    %rbp
           3b86:	ret
           3b87:	nopw   0x0(%rax,%rax,1)
       
       0000000000003b90 <lstm_missing_feature>:
           3b90:	push   %rax
           3b91:	call   3af0 <lstm_state_init+0x90>
           3b96:	pop    %rcx
           3b97:	ret
           3b98:	nopl   0x0(%rax,%rax,1)
       
       0000000000003ba0 <lstm_supported>:
           3ba0:	push   %rax
           3ba1:	call   3af0 <lstm_state_init+0x90>
           3ba6:	xor    %ecx,%ecx
           3ba8:	test   %rax,%rax
           3bab:	sete   %cl
           3bae:	mov    %ecx,%eax
           3bb0:	pop    %rcx
           3bb1:	ret
